//! [`IndexKeeper`]: builds the index at the first search, keeps it current, and drops it when it is
//! idle.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::build;
use super::containers::Container;
use super::fields::{self, BuildProgress, BuildStatus, FieldState, NameInCatalog};
use super::name_index::NameIndex;
use crate::core::Core;
use crate::watch::NameEffect;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;
use slateberg_base::error_chain::chain;
use slateberg_store::records::{Change, ChangedKind, ChangedResource};

/// Time without searches after which the index is dropped.
const IDLE_MS: i64 = 600_000;
/// Interval at which an index without searches is updated.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time that a search waits for the changes before it. After this time, it searches an
/// earlier state.
const HORIZON_TIME: Duration = Duration::from_secs(2);
/// Maximum time that a search waits for the build of the columns and comments.
const FIELDS_TIME: Duration = Duration::from_secs(10);
/// Interval at which a search checks whether the changes before it are visible.
const HORIZON_INTERVAL: Duration = Duration::from_millis(20);
/// Number of changes that are read together.
const PAGE_CHANGES: usize = 1000;
/// Number of missing changes from which the index is built again instead.
const LAG_MAX: u64 = 100_000;
/// Number of attempts to build an index that the change feed can continue.
const ATTEMPTS_MAX: usize = 3;

/// Keeps the index of names. See the [module](self).
pub(super) struct IndexKeeper {
    core: Arc<Core>,
    kept: Arc<Mutex<Option<KeptIndex>>>,
}

struct KeptIndex {
    names: Arc<RwLock<NameIndex>>,
    fields: FieldState,
    /// The number of the next change to apply.
    next: u64,
    /// Time of the last search, by the clock of the catalog.
    last_search_ms: i64,
}

/// An index to search.
pub(super) struct CurrentIndex {
    pub(super) names: Arc<RwLock<NameIndex>>,
    /// Whether the index contains all changes that were made before the search.
    pub(super) is_current: bool,
}

impl IndexKeeper {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), kept: Arc::default() }
    }

    /// Returns the number of names in the index, and its size in bytes. Zero if there is no index,
    /// `None` while the index is being built or updated.
    pub(super) fn size(&self) -> Option<(usize, usize)> {
        let kept = self.kept.try_lock().ok()?;
        Some(kept.as_ref().map_or((0, 0), |kept| {
            let names = kept.names.read().unwrap_or_else(PoisonError::into_inner);
            (names.len(), names.bytes())
        }))
    }

    /// Returns the index with all changes that were durable when the call began, and with columns
    /// and comments if `with_fields`.
    pub(super) async fn current(&self, with_fields: bool) -> Result<CurrentIndex> {
        let is_current = self.wait_until_visible().await;
        let until = Instant::now() + FIELDS_TIME;
        loop {
            let (names, building) = self.updated(with_fields).await?;
            let Some(mut building) = building else {
                return Ok(CurrentIndex { names, is_current });
            };
            let ended = building.wait_for(|status| !matches!(status, BuildStatus::Running));
            // If the build was abandoned, the next iteration begins another one.
            if timeout_at(until, ended).await.is_err() {
                return Err(Error::unavailable(
                    "The server is reading the columns and comments of all tables for the first \
                     search. Retry later, or search only names",
                    "the index of columns and comments is not complete",
                ));
            }
        }
    }

    async fn updated(
        &self,
        with_fields: bool,
    ) -> Result<(Arc<RwLock<NameIndex>>, Option<BuildProgress>)> {
        let (core, kept) = (Arc::clone(&self.core), Arc::clone(&self.kept));
        // The build continues if the client disconnects, so that its next search finds the index.
        let update = tokio::spawn(async move {
            let mut current = kept.lock().await;
            let is_new = current.is_none();
            update(&core, &mut current).await?;
            let Some(index) = current.as_mut() else {
                return Err(Error::internal("the index of names was not built"));
            };
            index.last_search_ms = core.environment.now_ms();
            if is_new {
                tokio::spawn(keep(Arc::downgrade(&core), Arc::downgrade(&kept)));
            }
            let building = match with_fields {
                true => index.advance_fields(&core).await?,
                false => None,
            };
            Ok((Arc::clone(&index.names), building))
        });
        update.await.map_err(Error::internal)?
    }

    /// Waits until the change feed contains all changes that were made before this call. Returns
    /// `false` if this takes too long. The outcome of a change can stay unknown until the next start
    /// of the server.
    async fn wait_until_visible(&self) -> bool {
        let store = self.core.store();
        let target = store.next_change();
        let mut horizon = store.change_horizon();
        let wait = async {
            // A failed transaction returns its numbers without a notification.
            while store.current_horizon() < target.min(store.next_change()) {
                let _elapsed = timeout(HORIZON_INTERVAL, horizon.changed()).await;
            }
        };
        timeout(HORIZON_TIME, wait).await.is_ok()
    }
}

/// Updates the index until no search has used it for some time, and then drops it.
async fn keep(core: Weak<Core>, kept: Weak<Mutex<Option<KeptIndex>>>) {
    loop {
        sleep(UPDATE_INTERVAL).await;
        let (Some(core), Some(kept)) = (core.upgrade(), kept.upgrade()) else { return };
        let mut current = kept.lock().await;
        let Some(index) = current.as_ref() else { return };
        if core.environment.now_ms() - index.last_search_ms > IDLE_MS {
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
async fn update(core: &Arc<Core>, current: &mut Option<KeptIndex>) -> Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(index) = current.as_mut() {
            match index.catch_up(core).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    // The index may contain only a part of the changes.
                    *current = None;
                    return Err(error);
                }
            }
            let Some(index) = current.as_ref() else { continue };
            let last_search_ms = index.last_search_ms;
            *current = None;
            *current = Some(built(core, last_search_ms).await?);
        } else {
            *current = Some(built(core, core.environment.now_ms()).await?);
        }
    }
    *current = None;
    Err(Error::unavailable(
        "The index of names was outdated before it was built. Retry later",
        "the change feed does not continue from the build",
    ))
}

/// Builds the index from the store.
async fn built(core: &Arc<Core>, last_search_ms: i64) -> Result<KeptIndex> {
    // The scans may also see changes after this number. They are applied again, which changes
    // nothing.
    let next = core.store().current_horizon();
    let names = Arc::new(RwLock::new(build::build(core).await?));
    Ok(KeptIndex { names, fields: FieldState::Absent, next, last_search_ms })
}

impl KeptIndex {
    /// Applies all visible changes. Returns whether the index is current. If not, it must be built
    /// again.
    async fn catch_up(&mut self, core: &Core) -> Result<bool> {
        let store = core.store();
        if store.current_horizon().saturating_sub(self.next) > LAG_MAX {
            return Ok(false);
        }
        let mut touched = HashSet::new();
        loop {
            let Some(page) = store.changes_from(self.next, PAGE_CHANGES).await? else {
                return Ok(false);
            };
            {
                let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
                for change in page.groups.iter().flat_map(|group| group.changes.iter()) {
                    if !apply(&mut names, change)? {
                        return Ok(false);
                    }
                    touched.extend(touched_fields(change));
                }
            }
            self.next = page.next;
            if page.is_last {
                break;
            }
        }
        if self.fields.is_ready() {
            fields::refresh(core, &self.names, touched).await?;
        }
        self.compact().await
    }

    /// Compacts the index if this is worthwhile. Returns `true`, so that the index stays in use.
    async fn compact(&mut self) -> Result<bool> {
        let is_sparse = self.names.read().unwrap_or_else(PoisonError::into_inner).is_sparse();
        // The build of the fields refers to names and terms by their numbers, which a compaction
        // changes.
        if is_sparse && !self.fields.is_building() {
            let names = Arc::clone(&self.names);
            let compact = tokio::task::spawn_blocking(move || {
                let new = names.read().unwrap_or_else(PoisonError::into_inner).compacted()?;
                *names.write().unwrap_or_else(PoisonError::into_inner) = new;
                Ok::<_, Error>(())
            });
            compact.await.map_err(Error::internal)??;
        }
        Ok(true)
    }

    /// Begins to read the columns and comments, or completes this. Returns a receiver that is
    /// notified when the columns and comments were read. `None` if they are ready.
    async fn advance_fields(&mut self, core: &Arc<Core>) -> Result<Option<BuildProgress>> {
        match &self.fields {
            FieldState::Ready => return Ok(None),
            FieldState::Building { from, progress } => {
                let outcome = progress.borrow().clone();
                match outcome {
                    BuildStatus::Running => return Ok(Some(progress.clone())),
                    BuildStatus::Failed(error) => {
                        self.fields = FieldState::Absent;
                        return Err(Error::internal(error));
                    }
                    BuildStatus::Done => {
                        if self.complete_fields(core, *from).await? {
                            self.fields = FieldState::Ready;
                            return Ok(None);
                        }
                    }
                }
            }
            FieldState::Absent => {}
        }
        let progress = fields::spawn_build(core, &self.names);
        self.fields = FieldState::Building { from: self.next, progress: progress.clone() };
        Ok(Some(progress))
    }

    /// Reads the columns and comments again that were changed during the build. Returns `false` if
    /// the change log does not contain all of these changes.
    async fn complete_fields(&self, core: &Core, from: u64) -> Result<bool> {
        let (mut touched, mut from) = (HashSet::new(), from);
        while from < self.next {
            let Some(page) = core.store().changes_from(from, PAGE_CHANGES).await? else {
                return Ok(false);
            };
            let changes = page.groups.iter().flat_map(|group| group.changes.iter());
            touched.extend(changes.flat_map(|change| touched_fields(change)));
            from = page.next;
            if page.is_last {
                break;
            }
        }
        fields::refresh(core, &self.names, touched).await?;
        Ok(true)
    }
}

/// Kinds of updates that change neither columns nor comments.
const OTHER_UPDATES: [&str; 17] = [
    "add-encryption-key",
    "add-snapshot",
    "add-sort-order",
    "add-spec",
    "assign-uuid",
    "remove-encryption-key",
    "remove-partition-specs",
    "remove-partition-statistics",
    "remove-snapshot-ref",
    "remove-snapshots",
    "remove-statistics",
    "set-default-sort-order",
    "set-default-spec",
    "set-location",
    "set-partition-statistics",
    "set-snapshot-ref",
    "set-statistics",
];

/// Returns the name whose columns or comments a change may have changed.
fn touched_fields(change: &Change) -> Option<NameInCatalog> {
    let resource = change.resource.as_ref()?;
    let kind = match resource.kind {
        ChangedKind::Warehouse | ChangedKind::Function => return None,
        ChangedKind::Namespace => Kind::Namespace,
        ChangedKind::Table => Kind::Table,
        ChangedKind::View => Kind::View,
    };
    let is_other = |update: &String| OTHER_UPDATES.contains(&&**update);
    let effect = NameEffect::of(change)?;
    let changes_others =
        !resource.operations.is_empty() && resource.operations.iter().all(is_other);
    if effect == NameEffect::Removed || (effect == NameEffect::Unchanged && changes_others) {
        return None;
    }
    let mut levels = resource.namespace.clone();
    let name = match kind {
        Kind::Namespace => levels.pop()?,
        _ => resource.name.clone()?,
    };
    Some(NameInCatalog { container: Container { warehouse: change.warehouse, levels }, kind, name })
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
            names.insert(container, kind, &name, change.subject)?;
        }
        NameEffect::Removed => {
            let container = names.container(Container { warehouse, levels })?;
            names.remove(container, kind, &name);
        }
        NameEffect::Unchanged => {}
    }
    Ok(true)
}
