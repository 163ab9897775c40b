//! Reads the columns and comments of the catalog into the index.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::containers::Container;
use super::field_index::{MissingTexts, TermId};
use super::name_index::NameIndex;
use super::namespaces::{Namespace, namespaces};
use super::texts::{DocumentTexts, columns_of, comment_of};
use crate::core::Core;
use crate::lookup;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;
use slateberg_base::error_chain::chain;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::segmented_json::ChunkHash;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{MetadataKey, NamespaceKey, TabularKey};
use slateberg_store::read::StoreRead;

/// Number of tables and views that are read together.
const PAGE_TABULARS: usize = 500;
/// Number of schemas whose columns the build remembers, because many tables share them.
const KNOWN_SCHEMAS_MAX: usize = 10_000;
/// Largest effective maximum size of the index. Then the offsets in the lists of columns, which have
/// 32 bits, suffice even if each number in the lists has its longest form.
const INDEX_BYTES_MAX: usize = 512 << 20;
/// Part of the maximum size of the index up to which it gets further comments. The rest is for
/// columns.
const COMMENTS_PART: (usize, usize) = (3, 4);

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

/// The metadata of a table or view.
struct ReadDocument {
    container: Container,
    kind: TabularKind,
    name: String,
    id: Uuid,
    json: Bytes,
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
async fn build(core: &Core, names: &Weak<RwLock<NameIndex>>) -> Result<Option<usize>> {
    let namespaces = namespaces(core).await?;
    let Some(index) = names.upgrade() else { return Ok(None) };
    let bytes_max = bytes_max(core);
    add_comments(&index, namespaces.values(), bytes_max)?;
    drop(index);
    let store = core.store().durable();
    let mut known = HashMap::new();
    let mut heads = Heads::new();
    let mut pages = Pages::<TabularKey>::of(KeySpace::Tabulars, PAGE_TABULARS);
    while let Some(page) = pages.next(&store).await? {
        let mut documents = Vec::with_capacity(page.len());
        for (TabularKey(id), record) in page {
            // If one of these is missing, the change feed contains the change that removed or added
            // it.
            let Some(namespace) = namespaces.get(&record.namespace) else { continue };
            let Some(json) = heads.of(core, id).await? else { continue };
            let container = namespace.container.clone();
            let (kind, name) = (record.kind, record.name);
            documents.push(ReadDocument { container, kind, name, id, json });
        }
        let Some(index) = names.upgrade() else { return Ok(None) };
        let added = tokio::task::spawn_blocking(move || {
            add_documents(&index, &documents, &mut known, bytes_max)?;
            Ok::<_, Error>(known)
        });
        known = added.await.map_err(Error::internal)??;
    }
    let Some(index) = names.upgrade() else { return Ok(None) };
    let finish = tokio::task::spawn_blocking(move || {
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        index.finish_fields();
        (index.bytes(), index.fields().missing())
    });
    let (bytes, missing) = finish.await.map_err(Error::internal)?;
    if missing != MissingTexts::default() {
        tracing::warn!(
            bytes_max,
            lacks_columns = missing.columns,
            lacks_comments = missing.comments,
            "the index of the search lacks texts: raise catalog.search_index_bytes_max"
        );
    }
    Ok(Some(bytes))
}

/// Reads the metadata of tables and views in the order of their ids.
struct Heads {
    /// The rest of the last page that was read, in reverse order.
    read: Vec<(Uuid, Bytes)>,
    pages: Pages<MetadataKey>,
}

impl Heads {
    fn new() -> Self {
        Self { read: Vec::new(), pages: Pages::of(KeySpace::Metadata, PAGE_TABULARS) }
    }

    /// Returns the metadata of a table or view. The id must be greater than that of the last call.
    async fn of(&mut self, core: &Core, id: Uuid) -> Result<Option<Bytes>> {
        loop {
            while let Some((next, json)) = self.read.pop() {
                if next == id {
                    return Ok(Some(json));
                }
                if next > id {
                    self.read.push((next, json));
                    return Ok(None);
                }
            }
            let store = core.store().durable();
            let Some(page) = self.pages.next(&store).await? else { return Ok(None) };
            let read = page.into_iter().rev();
            self.read.extend(read.map(|(key, head)| (key.0, head.json_without_chunks().clone())));
        }
    }
}

/// Returns the size up to which the index gets further columns.
fn bytes_max(core: &Core) -> usize {
    usize::try_from(core.settings().search_index_bytes_max)
        .unwrap_or(usize::MAX)
        .min(INDEX_BYTES_MAX)
}

/// Returns the texts for which the index has no room.
fn without_room(index: &NameIndex, bytes_max: usize) -> MissingTexts {
    let (bytes, (part, whole)) = (index.bytes(), COMMENTS_PART);
    MissingTexts { columns: bytes >= bytes_max, comments: bytes >= bytes_max / whole * part }
}

/// Returns the terms of the texts of an object, as far as the index has room for them. `known`
/// contains the columns of schemas that were read before, if they were complete.
fn terms_of(
    index: &mut NameIndex,
    texts: DocumentTexts<'_>,
    known: &mut HashMap<ChunkHash, Vec<TermId>>,
    bytes_max: usize,
) -> Result<Vec<TermId>> {
    let without = without_room(index, bytes_max);
    let (mut terms, mut missing) = (Vec::new(), MissingTexts::default());
    if let Some(schema) = texts.schema {
        let hash = ChunkHash::of(schema.get().as_bytes());
        if let (Some(known), false) = (known.get(&hash), without.columns) {
            terms.clone_from(known);
        } else {
            let columns = columns_of(schema)?;
            let has_comments = columns.iter().any(|column| column.comment.is_some());
            missing.comments = without.comments && has_comments;
            if without.columns {
                missing.columns = !columns.is_empty();
            } else {
                terms = index.fields_mut().columns(&columns, !without.comments)?;
                if !missing.comments {
                    if known.len() >= KNOWN_SCHEMAS_MAX {
                        known.clear();
                    }
                    known.insert(hash, terms.clone());
                }
            }
        }
    }
    match texts.comment {
        Some(_) if without.comments => missing.comments = true,
        Some(comment) => terms.push(index.fields_mut().comment(&comment)?),
        None => {}
    }
    index.fields_mut().set_missing(missing);
    Ok(terms)
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
        let texts = DocumentTexts { schema: None, comment: comment.clone() };
        let terms = terms_of(&mut index, texts, &mut HashMap::new(), bytes_max)?;
        index.assign_fields((container, Kind::Namespace, &name), *id, terms);
    }
    Ok(())
}

/// Adds the columns and comments of some tables and views. `known` contains the terms of schemas
/// that were read before.
fn add_documents(
    index: &RwLock<NameIndex>,
    documents: &[ReadDocument],
    known: &mut HashMap<ChunkHash, Vec<TermId>>,
    bytes_max: usize,
) -> Result<()> {
    let parsed = documents.iter().map(|it| DocumentTexts::parse(it.kind, &it.json));
    let parsed = parsed.collect::<Result<Vec<_>>>()?;
    let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
    for (document, texts) in documents.iter().zip(parsed) {
        let terms = terms_of(&mut index, texts, known, bytes_max)?;
        let container = index.container(document.container.clone())?;
        index.assign_fields((container, document.kind.into(), &document.name), document.id, terms);
    }
    Ok(())
}

/// Reads the columns and comments of these names again.
pub(super) async fn refresh(
    core: &Core,
    names: &Arc<RwLock<NameIndex>>,
    touched: HashSet<NameInCatalog>,
) -> Result<()> {
    for NameInCatalog { container, kind, name } in touched {
        let found = match kind {
            Kind::Namespace => read_namespace(core, &container, &name).await?,
            Kind::Table => read_document(core, TabularKind::Table, &container, &name).await?,
            Kind::View => read_document(core, TabularKind::View, &container, &name).await?,
            Kind::Catalog | Kind::Warehouse | Kind::Function => continue,
        };
        let mut names = names.write().unwrap_or_else(PoisonError::into_inner);
        let container = names.container(container)?;
        // A name without an object was dropped or renamed. The change feed will contain this.
        names.clear_fields(container, kind, &name);
        if let Some((id, OwnedTexts { schema, comment })) = found {
            let texts = DocumentTexts { schema: schema.as_deref(), comment };
            let terms = terms_of(&mut names, texts, &mut HashMap::new(), bytes_max(core))?;
            names.assign_fields((container, kind, &name), id, terms);
        }
    }
    Ok(())
}

/// Texts that were read for one object.
struct OwnedTexts {
    schema: Option<Box<serde_json::value::RawValue>>,
    comment: Option<String>,
}

async fn read_namespace(
    core: &Core,
    container: &Container,
    name: &str,
) -> Result<Option<(Uuid, OwnedTexts)>> {
    let store = core.store().durable();
    let mut levels = container.levels.clone();
    levels.push(name.to_owned());
    let ident = NamespaceIdent(levels);
    let Some(id) = lookup::namespace_id(&store, container.warehouse, &ident).await? else {
        return Ok(None);
    };
    let record = store.get(&NamespaceKey(id)).await?;
    Ok(record
        .map(|record| (id, OwnedTexts { schema: None, comment: comment_of(&record.properties) })))
}

async fn read_document(
    core: &Core,
    kind: TabularKind,
    container: &Container,
    name: &str,
) -> Result<Option<(Uuid, OwnedTexts)>> {
    let store = core.store().durable();
    let namespace = NamespaceIdent(container.levels.clone());
    let ident = TabularIdent { namespace, name: name.to_owned() };
    let Some(id) = lookup::tabular_id(&store, container.warehouse, kind, &ident).await? else {
        return Ok(None);
    };
    let Some(head) = store.get(&MetadataKey(id)).await? else { return Ok(None) };
    let texts = DocumentTexts::parse(kind, head.json_without_chunks())?;
    let schema = texts.schema.map(ToOwned::to_owned);
    Ok(Some((id, OwnedTexts { schema, comment: texts.comment })))
}
