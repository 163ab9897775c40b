//! Reads the columns and comments of the catalog into the index.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::containers::Container;
use super::field_index::MissingTexts;
use super::field_read;
use super::name_index::NameIndex;
use super::namespaces::{Namespace, namespaces};
use super::terms::{Texts, terms_of, without_room};
use super::texts::comment_of;
use crate::core::Core;
use crate::lookup;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;
use slateberg_base::error_chain::chain;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_store::keys::{MetadataKey, NamespaceKey};
use slateberg_store::read::StoreRead;

/// Largest effective maximum size of the index. Then the offsets in the lists of columns, which have
/// 32 bits, suffice even if each number in the lists has its longest form.
const INDEX_BYTES_MAX: usize = 512 << 20;

/// Whether the index contains columns and comments.
pub(super) enum FieldState {
    /// The index contains only names.
    Absent,
    /// A task adds columns and comments to the index.
    Building {
        /// The number of the first change that the task may not have read.
        from: u64,
        /// The state of the task.
        progress: BuildProgress,
    },
    /// The index contains all columns and comments.
    Ready,
}

impl FieldState {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    pub(super) fn is_building(&self) -> bool {
        matches!(self, Self::Building { .. })
    }
}

/// The state of a task that reads columns and comments.
#[derive(Debug, Clone)]
pub(super) enum BuildStatus {
    Running,
    Done,
    /// The message of the error.
    Failed(String),
}

/// Receiver of the state of a build.
pub(super) type BuildProgress = watch::Receiver<BuildStatus>;

/// A name with the warehouse or namespace that contains it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NameInCatalog {
    pub(super) container: Container,
    pub(super) kind: Kind,
    pub(super) name: String,
}

/// Starts a task that adds the columns and comments of the whole catalog to an index. The task ends
/// early if the index is dropped.
pub(super) fn spawn_build(core: &Arc<Core>, names: &Arc<RwLock<NameIndex>>) -> BuildProgress {
    let (sender, receiver) = watch::channel(BuildStatus::Running);
    let (core, names) = (Arc::clone(core), Arc::downgrade(names));
    tokio::spawn(async move {
        let began = Instant::now();
        let status = match build(&core, &names).await {
            Ok(None) => return,
            Ok(Some(bytes)) => {
                tracing::info!(
                    bytes,
                    duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    "added columns and comments to the index of names"
                );
                BuildStatus::Done
            }
            Err(error) => BuildStatus::Failed(chain(&error).to_string()),
        };
        sender.send_replace(status);
    });
    receiver
}

/// Adds all columns and comments. Returns the size of the index, or `None` if the index was dropped.
async fn build(core: &Arc<Core>, names: &Weak<RwLock<NameIndex>>) -> Result<Option<usize>> {
    let namespaces = namespaces(core).await?;
    let Some(index) = names.upgrade() else { return Ok(None) };
    let bytes_max = bytes_max(core);
    add_comments(&index, namespaces.values(), bytes_max)?;
    drop(index);
    field_read::add_all(core, names, bytes_max).await?;
    let Some(index) = names.upgrade() else { return Ok(None) };
    let finish = tokio::task::spawn_blocking(move || {
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        index.finish_fields();
        (index.bytes(), index.fields().missing(), without_room(&index, bytes_max))
    });
    let (bytes, missing, without_room) = finish.await.map_err(Error::internal)?;
    if missing != MissingTexts::default() && without_room != MissingTexts::default() {
        tracing::warn!(
            bytes_max,
            lacks_columns = missing.columns,
            lacks_comments = missing.comments,
            "the index of the search lacks texts: raise catalog.search_index_bytes_max"
        );
    }
    Ok(Some(bytes))
}

/// Returns the size up to which the index gets further columns.
fn bytes_max(core: &Core) -> usize {
    usize::try_from(core.settings().search_index_bytes_max)
        .unwrap_or(usize::MAX)
        .min(INDEX_BYTES_MAX)
}

fn add_comments<'a>(
    index: &RwLock<NameIndex>,
    namespaces: impl Iterator<Item = &'a Namespace>,
    bytes_max: usize,
) -> Result<()> {
    let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
    index.fields_mut().begin_build();
    for Namespace { id, container, comment } in namespaces {
        let mut levels = container.levels.clone();
        let (Some(name), Some(_)) = (levels.pop(), comment) else { continue };
        let container = index.container(Container { warehouse: container.warehouse, levels })?;
        let comment = comment.as_deref().map(Cow::Borrowed);
        let terms = terms_of(&mut index, Texts::of_namespace(comment), bytes_max)?;
        index.assign_fields((container, Kind::Namespace, &name), *id, terms.all());
    }
    Ok(())
}

/// Reads the columns and comments of these names again.
pub(super) async fn refresh(
    core: &Core,
    names: &RwLock<NameIndex>,
    touched: HashSet<NameInCatalog>,
) -> Result<()> {
    for name in touched {
        read_again(core, names, name).await?;
    }
    Ok(())
}

/// Reads the columns and comments of a name again.
async fn read_again(core: &Core, names: &RwLock<NameIndex>, name: NameInCatalog) -> Result<()> {
    match name.kind {
        Kind::Namespace => read_namespace_again(core, names, name).await,
        Kind::Table => read_tabular_again(core, names, TabularKind::Table, name).await,
        Kind::View => read_tabular_again(core, names, TabularKind::View, name).await,
        Kind::Catalog | Kind::Warehouse | Kind::Function => Ok(()),
    }
}

async fn read_namespace_again(
    core: &Core,
    names: &RwLock<NameIndex>,
    name: NameInCatalog,
) -> Result<()> {
    let store = core.store().durable();
    let mut ident = NamespaceIdent(name.container.levels.clone());
    ident.0.push(name.name.clone());
    let record = match lookup::namespace_id(&store, name.container.warehouse, &ident).await? {
        Some(id) => store.get_shared(&NamespaceKey(id)).await?,
        None => None,
    };
    let texts = record.as_ref().map(|it| (it.id, Texts::of_namespace(comment_of(&it.properties))));
    replace(core, names, name, texts)
}

async fn read_tabular_again(
    core: &Core,
    names: &RwLock<NameIndex>,
    kind: TabularKind,
    name: NameInCatalog,
) -> Result<()> {
    let store = core.store().durable();
    let namespace = NamespaceIdent(name.container.levels.clone());
    let ident = TabularIdent { namespace, name: name.name.clone() };
    let id = lookup::tabular_id(&store, name.container.warehouse, kind, &ident).await?;
    let head = match id {
        Some(id) => store.get(&MetadataKey(id)).await?,
        None => None,
    };
    let texts = id.zip(head.as_ref());
    let texts =
        texts.map(|(id, head)| (id, Texts::parse(id, head.json_without_chunks(), |_| None)));
    replace(core, names, name, texts)
}

/// Replaces the terms of a name by those of the object with this id.
fn replace(
    core: &Core,
    names: &RwLock<NameIndex>,
    NameInCatalog { container, kind, name }: NameInCatalog,
    texts: Option<(Uuid, Texts<'_>)>,
) -> Result<()> {
    let mut names = names.write().unwrap_or_else(PoisonError::into_inner);
    let container = names.container(container)?;
    // A name without an object was dropped or renamed. The change feed will contain this.
    names.clear_fields(container, kind, &name);
    if let Some((id, texts)) = texts {
        let terms = terms_of(&mut names, texts, bytes_max(core))?;
        names.assign_fields((container, kind, &name), id, terms.all());
    }
    Ok(())
}
