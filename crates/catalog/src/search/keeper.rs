//! [`IndexKeeper`]: builds the index at the first search, keeps it current, and drops it when it is
//! idle.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::name_index::{Container, NameIndex};
use crate::core::Core;
use crate::watch::NameEffect;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;
use slateberg_base::error_chain::chain;
use slateberg_model::ident::TabularKind;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{Key, NamespaceKey, tabular_names};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{Change, ChangedKind, ChangedResource};

/// Time without searches after which the index is dropped.
const IDLE_TIME: Duration = Duration::from_secs(600);
/// Interval at which an index without searches is updated.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a search checks whether the changes before it are visible.
const HORIZON_INTERVAL: Duration = Duration::from_millis(20);
/// Number of changes that are read together.
const PAGE_CHANGES: usize = 1000;
/// Number of missing changes from which the index is built again instead.
const LAG_MAX: u64 = 100_000;
/// Number of namespaces that are read together.
const PAGE_NAMESPACES: usize = 1000;
/// Number of attempts to build an index that the change feed can continue.
const ATTEMPTS_MAX: usize = 3;

/// Keeps the index of names. See the [module](self).
pub(super) struct IndexKeeper {
    core: Arc<Core>,
    kept: Arc<Mutex<Option<KeptIndex>>>,
}

struct KeptIndex {
    names: Arc<RwLock<NameIndex>>,
    /// The number of the next change to apply.
    next: u64,
    last_search: Instant,
}

impl IndexKeeper {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), kept: Arc::default() }
    }

    /// Returns the index with all changes that were durable when the call began.
    pub(super) async fn current(&self) -> Result<Arc<RwLock<NameIndex>>> {
        self.wait_until_visible().await?;
        let (core, kept) = (Arc::clone(&self.core), Arc::clone(&self.kept));
        // The build continues if the client disconnects, so that its next search finds the index.
        let update = tokio::spawn(async move {
            let mut current = kept.lock().await;
            let is_new = current.is_none();
            update(&core, &mut current).await?;
            let Some(index) = current.as_mut() else {
                return Err(Error::internal("the index of names was not built"));
            };
            index.last_search = Instant::now();
            if is_new {
                tokio::spawn(keep(Arc::downgrade(&core), Arc::downgrade(&kept)));
            }
            Ok(Arc::clone(&index.names))
        });
        update.await.map_err(Error::internal)?
    }

    /// Waits until the change feed contains all changes that were made before this call.
    async fn wait_until_visible(&self) -> Result<()> {
        let store = self.core.store();
        let target = store.next_change();
        let mut horizon = store.change_horizon();
        let wait = async {
            // A failed transaction returns its numbers without a notification.
            while store.current_horizon() < target.min(store.next_change()) {
                let _elapsed = timeout(HORIZON_INTERVAL, horizon.changed()).await;
            }
        };
        let at_most = self.core.settings().commit_deadline();
        timeout(at_most, wait).await.map_err(|_| {
            Error::unavailable(
                "The search cannot include the latest changes, because they are not durable yet. \
                 Retry later",
                "the horizon of the change feed does not move",
            )
        })
    }
}

/// Updates the index until no search has used it for some time, and then drops it.
async fn keep(core: Weak<Core>, kept: Weak<Mutex<Option<KeptIndex>>>) {
    loop {
        sleep(UPDATE_INTERVAL).await;
        let (Some(core), Some(kept)) = (core.upgrade(), kept.upgrade()) else { return };
        let mut current = kept.lock().await;
        let Some(index) = current.as_ref() else { return };
        if index.last_search.elapsed() > IDLE_TIME {
            tracing::info!("dropped the index of names, because no search has used it lately");
            *current = None;
            return;
        }
        if let Err(error) = update(&core, &mut current).await {
            tracing::warn!(
                error = chain(&error),
                "cannot update the index of names: the next search builds it again"
            );
            *current = None;
            return;
        }
    }
}

/// Applies the visible changes to the index, or builds it. `None` afterwards only after an error.
async fn update(core: &Core, current: &mut Option<KeptIndex>) -> Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(index) = current.as_mut() {
            if index.catch_up(core).await? {
                return Ok(());
            }
            let last_search = index.last_search;
            *current = None;
            *current = Some(build(core, last_search).await?);
        } else {
            *current = Some(build(core, Instant::now()).await?);
        }
    }
    *current = None;
    Err(Error::unavailable(
        "The index of names was outdated before it was built. Retry later",
        "the change feed does not continue from the build",
    ))
}

/// Builds the index from the store.
async fn build(core: &Core, last_search: Instant) -> Result<KeptIndex> {
    let began = Instant::now();
    let store = core.store().durable();
    // The scans may also see changes after this number. They are applied again, which changes
    // nothing.
    let next = core.store().current_horizon();
    let mut index = NameIndex::default();
    let mut containers = HashMap::new();
    for namespace in namespaces(core).await?.into_values() {
        let Namespace { id, container } = namespace;
        let mut levels = container.levels.clone();
        if let Some(name) = levels.pop() {
            let parent = Container { warehouse: container.warehouse, levels };
            let parent = index.container(parent)?;
            index.insert(parent, Kind::Namespace, &name)?;
        }
        containers.insert(id, index.container(container)?);
    }
    let spaces = [
        (tabular_names(TabularKind::Table), Kind::Table),
        (tabular_names(TabularKind::View), Kind::View),
        (KeySpace::Functions, Kind::Function),
    ];
    for (space, kind) in spaces {
        let mut inserted = Ok(());
        let mut visit = |parent: Uuid, name: &str| {
            // If the namespace is missing, it was created after the namespaces were read. The
            // change feed then contains the creation of the name, too.
            if let Some(container) = containers.get(&parent)
                && inserted.is_ok()
            {
                inserted = index.insert(*container, kind, name);
            }
        };
        store.visit_names(space, &mut visit).await?;
        inserted?;
    }
    index.shrink();
    tracing::info!(
        names = index.len(),
        bytes = index.bytes(),
        duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "built the index of names for the first search"
    );
    Ok(KeptIndex { names: Arc::new(RwLock::new(index)), next, last_search })
}

/// A namespace with its full name.
struct Namespace {
    id: Uuid,
    container: Container,
}

/// Reads all namespaces.
async fn namespaces(core: &Core) -> Result<HashMap<Uuid, Namespace>> {
    let store = core.store().durable();
    let (mut records, mut after) = (HashMap::new(), None);
    loop {
        let range = KeyRange::all(KeySpace::Namespaces).behind(after);
        let page = store.scan::<NamespaceKey>(&range, Some(PAGE_NAMESPACES)).await?;
        let is_last = page.len() < PAGE_NAMESPACES;
        after = page.last().map(|(key, _)| key.encode());
        let page = page.into_iter();
        records.extend(page.map(|(key, it)| (key.0, (it.warehouse, it.parent, it.name))));
        if is_last {
            break;
        }
    }
    let full = |(&id, (warehouse, ..)): (&Uuid, &(Uuid, Uuid, String))| {
        let (mut levels, mut at) = (Vec::new(), id);
        // If a parent is missing, it was dropped while the namespaces were read, and this
        // namespace before it.
        while at != *warehouse {
            let (_, parent, name) = records.get(&at)?;
            levels.push(name.clone());
            at = *parent;
        }
        levels.reverse();
        Some((id, Namespace { id, container: Container { warehouse: *warehouse, levels } }))
    };
    Ok(records.iter().filter_map(full).collect())
}

impl KeptIndex {
    /// Applies all visible changes. Returns whether the index is current. If not, it must be built
    /// again.
    async fn catch_up(&mut self, core: &Core) -> Result<bool> {
        let store = core.store();
        if store.current_horizon().saturating_sub(self.next) > LAG_MAX {
            return Ok(false);
        }
        loop {
            let Some(page) = store.changes_from(self.next, PAGE_CHANGES).await? else {
                return Ok(false);
            };
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            for change in page.groups.iter().flat_map(|group| group.changes.iter()) {
                if !apply(&mut names, change)? {
                    return Ok(false);
                }
            }
            self.next = page.next;
            if names.is_sparse() {
                return Ok(false);
            }
            if page.is_last {
                return Ok(true);
            }
        }
    }
}

/// Applies a change to the index. Returns `false` if the effect of the change is unknown, because an
/// older or a newer version of slateberg wrote it.
fn apply(names: &mut NameIndex, change: &Change) -> Result<bool> {
    let Some(effect) = NameEffect::of(change) else { return Ok(false) };
    let Some(resource) = &change.resource else { return Ok(true) };
    let kind = match resource.kind {
        ChangedKind::Warehouse => return Ok(true),
        ChangedKind::Namespace => Kind::Namespace,
        ChangedKind::Table => Kind::Table,
        ChangedKind::View => Kind::View,
        ChangedKind::Function => Kind::Function,
    };
    let ChangedResource { namespace, name, renamed_from, .. } = resource;
    let mut levels = namespace.clone();
    let name = match kind {
        Kind::Namespace => levels.pop(),
        _ => name.clone(),
    };
    let Some(name) = name else { return Ok(false) };
    let warehouse = change.warehouse;
    match effect {
        NameEffect::Added => {
            if let Some(before) = renamed_from {
                let levels = before.namespace.clone();
                let container = names.container(Container { warehouse, levels })?;
                names.remove(container, kind, &before.name);
            }
            let container = names.container(Container { warehouse, levels })?;
            names.insert(container, kind, &name)?;
        }
        NameEffect::Removed => {
            let container = names.container(Container { warehouse, levels })?;
            names.remove(container, kind, &name);
        }
        NameEffect::Unchanged => {}
    }
    Ok(true)
}
