//! Reads the metadata of all tables and views, and adds their columns and comments to an index.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bytes::Bytes;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::columns::columns_of;
use super::entries_by_id::EntriesById;
use super::field_index::TermId;
use super::name_index::NameIndex;
use super::terms::{Columns, Texts, terms_of};
use super::texts::DocumentTexts;
use crate::core::Core;
use crate::{Error, Result};
use slateberg_model::segmented_json::ChunkHash;
use slateberg_store::bulk_read::IdRange;

/// Number of scans that read the metadata concurrently.
const SCANS: u128 = 2;
/// Number of documents that are added together, while searches wait.
const BATCH_DOCUMENTS: usize = 250;
/// Number of bytes from which documents are added although they are fewer.
const BATCH_BYTES: usize = 4 << 20;
/// Number of schemas whose columns a scan remembers, because many tables share them.
const KNOWN_SCHEMAS_MAX: usize = 10_000;

/// Adds the columns and comments of all tables and views. Returns the ids of those whose names the
/// index did not know by their id. Ends early if the index is dropped.
pub(super) async fn add_all(
    core: &Arc<Core>,
    names: &Weak<RwLock<NameIndex>>,
    bytes_max: usize,
) -> Result<Vec<Uuid>> {
    let Some(index) = names.upgrade() else { return Ok(Vec::new()) };
    let entries = tokio::task::spawn_blocking(move || {
        EntriesById::of(index.read().unwrap_or_else(PoisonError::into_inner).names())
    });
    let entries = Arc::new(entries.await.map_err(Error::internal)?);
    // Ids are random, so that ranges of the same size have about as many tables and views each.
    let starts = (1..SCANS).map(|part| Uuid::from_u128(u128::MAX / SCANS * part));
    let ranges = IdRange::divided_at(&starts.collect::<Vec<_>>());
    let scans = ranges.into_iter().map(|range| {
        let (core, runtime) = (Arc::clone(core), Handle::current());
        let reader = Reader {
            names: Weak::clone(names),
            entries: Arc::clone(&entries),
            bytes_max,
            known: HashMap::new(),
            unnamed: Vec::new(),
        };
        tokio::task::spawn_blocking(move || runtime.block_on(reader.read(&core, &range)))
    });
    let mut unnamed = Vec::new();
    // All scans run before the first one is awaited.
    for scan in scans.collect::<Vec<_>>() {
        unnamed.extend(scan.await.map_err(Error::internal)??);
    }
    Ok(unnamed)
}

/// Adds the columns and comments of some tables and views.
struct Reader {
    names: Weak<RwLock<NameIndex>>,
    entries: Arc<EntriesById>,
    bytes_max: usize,
    /// The terms of schemas that were read before, if the index has all of them.
    known: HashMap<ChunkHash, Vec<TermId>>,
    /// The ids of tables and views whose names the index does not know by their id.
    unnamed: Vec<Uuid>,
}

impl Reader {
    async fn read(mut self, core: &Core, ids: &IdRange) -> Result<Vec<Uuid>> {
        let (mut batch, mut bytes, mut added) = (Vec::new(), 0, Ok(ControlFlow::Continue(())));
        let mut visit = |id, json: Bytes| {
            bytes += json.len();
            batch.push((id, json));
            if batch.len() < BATCH_DOCUMENTS && bytes < BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            bytes = 0;
            added = self.add(&mem::take(&mut batch));
            *added.as_ref().unwrap_or(&ControlFlow::Break(()))
        };
        core.store().durable().visit_metadata(ids, &mut visit).await?;
        if added?.is_continue() {
            let _dropped = self.add(&batch)?;
        }
        Ok(self.unnamed)
    }

    /// Adds the columns and comments of these documents. Breaks if the index was dropped.
    fn add(&mut self, documents: &[(Uuid, Bytes)]) -> Result<ControlFlow<()>> {
        let Some(names) = self.names.upgrade() else { return Ok(ControlFlow::Break(())) };
        if self.known.len() >= KNOWN_SCHEMAS_MAX {
            self.known.clear();
        }
        let read =
            documents.iter().map(|(_, json)| self.texts(json)).collect::<Result<Vec<_>>>()?;
        let mut index = names.write().unwrap_or_else(PoisonError::into_inner);
        for ((id, _), (schema, texts)) in documents.iter().zip(read) {
            let Some(entry) = self.entries.find(index.names(), *id) else {
                self.unnamed.push(*id);
                continue;
            };
            let remember = |terms: &[TermId]| {
                self.known.extend(schema.map(|schema| (schema, terms.to_vec())));
            };
            let terms = terms_of(&mut index, &texts, self.bytes_max, remember)?;
            index.fields_mut().assign(entry, terms);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the texts in the metadata of a table or view, and the hash of its schema.
    fn texts<'a>(&self, json: &'a [u8]) -> Result<(Option<ChunkHash>, Texts<'a>)> {
        let DocumentTexts { schema, comment } = DocumentTexts::parse(json)?;
        let hash = schema.map(|schema| ChunkHash::of(schema.get().as_bytes()));
        let columns = match hash.and_then(|hash| self.known.get(&hash)) {
            Some(known) => Columns::Terms(known.clone()),
            None => Columns::New(schema.map(columns_of).transpose()?.unwrap_or_default()),
        };
        Ok((hash, Texts { columns, comment }))
    }
}
