//! Reads the metadata of all tables and views, and adds their columns and comments to an index.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bytes::Bytes;
use futures::future::join_all;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::entries_by_id::EntriesById;
use super::field_index::TermId;
use super::name_index::NameIndex;
use super::terms::{Columns, Texts, terms_of};
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
/// Number of terms of schemas that a scan remembers, because many tables share them.
const SCHEMA_TERMS_MAX: usize = 250_000;

/// Adds the columns and comments of all tables and views. Ends early if the index is dropped.
pub(super) async fn add_all(
    core: &Arc<Core>,
    names: &Weak<RwLock<NameIndex>>,
    bytes_max: usize,
) -> Result<()> {
    let Some(index) = names.upgrade() else { return Ok(()) };
    let entries = tokio::task::spawn_blocking(move || {
        EntriesById::of(index.read().unwrap_or_else(PoisonError::into_inner).names())
    });
    let entries = Arc::new(entries.await.map_err(Error::internal)?);
    // Ids are random, so that ranges of the same size have about as many tables and views each.
    let starts = (1..SCANS).map(|part| Uuid::from_u128(u128::MAX / SCANS * part));
    let ranges = IdRange::divided_at(&starts.collect::<Vec<_>>());
    let is_failed = Arc::new(AtomicBool::new(false));
    let scans = ranges.into_iter().map(|range| {
        let (core, runtime) = (Arc::clone(core), Handle::current());
        let is_failed = Arc::clone(&is_failed);
        let reader = Reader {
            names: Weak::clone(names),
            entries: Arc::clone(&entries),
            bytes_max,
            is_failed: Arc::clone(&is_failed),
            schemas: HashMap::new(),
            schema_terms: 0,
        };
        tokio::task::spawn_blocking(move || {
            let read = runtime.block_on(reader.read(&core, &range));
            is_failed.fetch_or(read.is_err(), Ordering::Relaxed);
            read
        })
    });
    // If a scan fails, the others must end before the next build begins, because they write into
    // the same index.
    join_all(scans).await.into_iter().try_for_each(|read| read.map_err(Error::internal)?)
}

/// Adds the columns and comments of some tables and views.
struct Reader {
    names: Weak<RwLock<NameIndex>>,
    entries: Arc<EntriesById>,
    bytes_max: usize,
    /// Whether this or another scan has failed.
    is_failed: Arc<AtomicBool>,
    /// The terms of schemas that were read before, if the index has all of them.
    schemas: HashMap<ChunkHash, Vec<TermId>>,
    /// Number of terms in `schemas`.
    schema_terms: usize,
}

impl Reader {
    async fn read(mut self, core: &Core, ids: &IdRange) -> Result<()> {
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
        Ok(())
    }

    /// Adds the columns and comments of these documents. Breaks if the index was dropped, or if
    /// another scan has failed.
    fn add(&mut self, documents: &[(Uuid, Bytes)]) -> Result<ControlFlow<()>> {
        let Some(names) = self.names.upgrade() else { return Ok(ControlFlow::Break(())) };
        if self.is_failed.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(()));
        }
        if self.schema_terms >= SCHEMA_TERMS_MAX {
            self.schemas.clear();
            self.schema_terms = 0;
        }
        let texts: Vec<_> = documents.iter().map(|(id, json)| self.texts(*id, json)).collect();
        let mut index = names.write().unwrap_or_else(PoisonError::into_inner);
        for ((id, _), (schema, texts)) in documents.iter().zip(texts) {
            // If the name is missing, the table or view was dropped, or the change feed contains the
            // change that removed or added the name.
            let Some(entry) = self.entries.find(index.names(), *id) else { continue };
            let is_new = matches!(texts.columns, Columns::New(_));
            let terms = terms_of(&mut index, texts, self.bytes_max)?;
            if let Some(schema) = schema.filter(|_| is_new && terms.is_complete) {
                self.schema_terms += terms.columns.len();
                self.schemas.insert(schema, terms.columns.clone());
            }
            index.fields_mut().assign(entry, terms.all());
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the texts in the metadata of a table or view, and the hash of its schema.
    fn texts<'a>(&self, id: Uuid, json: &'a [u8]) -> (Option<ChunkHash>, Texts<'a>) {
        let mut hash = None;
        let texts = Texts::parse(id, json, |schema| {
            let schema = ChunkHash::of(schema.get().as_bytes());
            hash = Some(schema);
            self.schemas.get(&schema).cloned()
        });
        (hash, texts)
    }
}
