//! Checks the consistency of a store: reads every record and checks every invariant, without
//! writing.

mod functions;
mod index_entries;
mod record_index;
mod report;

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use uuid::Uuid;

use super::codec::{ChunkBytes, Document};
use super::error::Error;
use super::invariants::{self, Violation};
use super::jobs::JobWork;
use super::key_space::{Check, KeySpace};
use super::key_visitor::{KeyVisitor, visit};
use super::keys::{
    ApiKeyKey, ChunkKey, DroppedKey, EndedJobKey, JobKey, Key, MetadataKey, NamespaceKey,
    NamespaceNameKey, PolicyRevisionKey, PublicationKey, StoreKey, TabularKey, TabularNameKey,
    WarehouseKey,
};
use super::policy_snapshot::{self, PolicySnapshot};
use super::read::{KeyRange, StoreRead, corrupt, decode_value};
use super::records::FORMAT_VERSION;
use slateberg_base::progress::{Phase, Progress};
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::ChunkHash;

use record_index::RecordIndex;
pub use report::{PublishedMetadata, Report};

/// Number of records to read at once.
const PAGE_RECORDS: usize = 10_000;

/// Checks every record, and reports damage. Errors only if the store cannot be read.
pub async fn walk(store: &impl StoreRead, progress: &Progress) -> Result<Report, Error> {
    let mut walk = Walk {
        store,
        report: Report::default(),
        format_version: FORMAT_VERSION,
        phase: progress.phase("reading records", None),
        index: RecordIndex::default(),
    };
    let checks: BTreeSet<Check> = KeySpace::ALL.iter().map(|space| space.rules().check).collect();
    for check in checks {
        walk.check(check).await?;
    }
    walk.unknown_spaces().await?;
    Ok(walk.report)
}

/// Returns the id of the warehouse with this name.
pub async fn warehouse_id(store: &impl StoreRead, name: &str) -> Result<Option<Uuid>, Error> {
    Ok(store.get(&WarehouseKey(name.to_owned())).await?.map(|record| record.id))
}

struct Walk<'a, R> {
    store: &'a R,
    report: Report,
    /// Format of the store. Records that were introduced with a newer format may be missing.
    format_version: u32,
    phase: Phase,
    index: RecordIndex,
}

impl<R: StoreRead> Walk<'_, R> {
    async fn check(&mut self, check: Check) -> Result<(), Error> {
        match check {
            Check::Store => self.store().await,
            Check::Warehouses => self.warehouses().await,
            Check::Namespaces => self.namespaces().await,
            Check::Tabulars => self.tabulars().await,
            Check::Dropped => self.dropped().await,
            Check::DroppedNamespaces => self.dropped_namespaces().await,
            Check::TabularNames => self.tabular_names().await,
            Check::Functions => self.functions().await,
            Check::DroppedFunctions => self.dropped_functions().await,
            Check::Locations => self.locations().await,
            Check::Uuids => self.uuids().await,
            Check::Publications => self.publications().await,
            Check::Jobs => self.jobs().await,
            Check::Protections => self.protections().await,
            Check::Metadata => self.metadata().await,
            Check::Policies => self.policies().await,
            Check::EndedJobs => self.ended_jobs().await,
            Check::ApiKeys => self.api_keys().await,
            Check::Decoding => self.check_others().await,
        }
    }

    fn note(&mut self, finding: Result<(), Violation>) {
        self.report.broken.extend(finding.err());
    }

    async fn all<K: Key>(&mut self, space: KeySpace) -> Result<Vec<(K, K::Value)>, Error> {
        let mut entries = Vec::new();
        let mut range = KeyRange::all(space);
        loop {
            let page = self.store.scan::<K>(&range, Some(PAGE_RECORDS)).await?;
            self.count(page.len());
            let last = page.last().map(|(key, _)| key.encode());
            let is_end = page.len() < PAGE_RECORDS;
            entries.extend(page);
            if is_end {
                return Ok(entries);
            }
            range = range.behind(last);
        }
    }

    fn count(&mut self, records: usize) {
        self.report.records += records;
        self.phase.advance(records as u64);
    }

    async fn store(&mut self) -> Result<(), Error> {
        match self.store.get(&StoreKey).await? {
            None => self.note(Err("the store has no format record".to_owned())),
            Some(format) => {
                self.count(1);
                self.format_version = format.format_version;
                format.check()?;
            }
        }
        Ok(())
    }

    async fn warehouses(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<WarehouseKey>(KeySpace::WarehouseNames).await? {
            if !self.index.warehouses.insert(record.id) {
                self.note(Err(format!("warehouse {:?} has the id of another warehouse", key.0)));
            }
        }
        Ok(())
    }

    async fn namespaces(&mut self) -> Result<(), Error> {
        let records = self.all::<NamespaceKey>(KeySpace::Namespaces).await?;
        let records: HashMap<_, _> =
            records.into_iter().map(|(key, record)| (key.0, record)).collect();
        self.report.namespaces = records.len();
        let mut named = HashSet::new();
        for (key, entry) in self.all::<NamespaceNameKey>(KeySpace::NamespaceNames).await? {
            self.note(invariants::namespace_name(&key, &entry, records.get(&entry.id)));
            if !named.insert(entry.id) {
                self.note(Err(format!("namespace {} has two names", entry.id)));
            }
        }
        for (id, record) in &records {
            if record.id != *id {
                self.note(Err(format!("the record of namespace {id} has the id {}", record.id)));
            }
            if !named.contains(id) {
                self.note(Err(format!("namespace {id} ({:?}) has no name", record.name)));
            }
            if !self.index.warehouses.contains(&record.warehouse) {
                self.note(Err(format!("namespace {id} is in an unknown warehouse")));
            }
            let parent = record.parent;
            if parent != record.warehouse && !records.contains_key(&parent) {
                self.note(Err(format!("the parent {parent} of namespace {id} does not exist")));
            }
        }
        self.index.namespaces = records;
        Ok(())
    }

    async fn tabulars(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<TabularKey>(KeySpace::Tabulars).await? {
            match record.kind {
                TabularKind::Table => self.report.tables += 1,
                TabularKind::View => self.report.views += 1,
            }
            if record.id != key.0 {
                self.note(Err(format!("the record of {} has the id {}", key.0, record.id)));
            }
            let at_root = record.namespace == record.warehouse;
            if !at_root && !self.index.namespaces.contains_key(&record.namespace) {
                self.note(Err(format!("{} is in a namespace that does not exist", record.id)));
            }
            self.index.tabulars.insert(key.0, record);
        }
        Ok(())
    }

    async fn dropped(&mut self) -> Result<(), Error> {
        for (key, dropped) in self.all::<DroppedKey>(KeySpace::Dropped).await? {
            let record = &dropped.record;
            if record.id != key.0 {
                self.note(Err(format!("the dropped record of {} has the id {}", key.0, record.id)));
            }
            if self.index.tabulars.contains_key(&key.0) {
                self.note(Err(format!(
                    "{} is both an existing and a dropped table or view",
                    key.0
                )));
            }
            if !self.index.warehouses.contains(&record.warehouse) {
                self.note(Err(format!("dropped {} is in an unknown warehouse", key.0)));
            }
            self.index.dropped.insert(key.0, dropped);
        }
        Ok(())
    }

    async fn tabular_names(&mut self) -> Result<(), Error> {
        let mut named = HashSet::new();
        let mut views = HashMap::new();
        for space in [KeySpace::ViewNames, KeySpace::TableNames] {
            for (key, entry) in self.all::<TabularNameKey>(space).await? {
                let record = self.index.tabulars.get(&entry.id);
                self.note(invariants::tabular_name(&key, &entry, record));
                let name = (key.namespace, key.name.clone());
                if key.kind == TabularKind::Table {
                    self.note(invariants::one_kind_per_name(&key, views.get(&name)));
                } else {
                    views.insert(name, entry);
                }
                if !named.insert(entry.id) {
                    self.note(Err(format!("{} has two names", entry.id)));
                }
            }
        }
        for (id, record) in &self.index.tabulars {
            if !named.contains(id) {
                self.report.broken.push(format!("{id} ({:?}) has no name", record.name));
            }
        }
        Ok(())
    }

    async fn publications(&mut self) -> Result<(), Error> {
        for (key, marker) in self.all::<PublicationKey>(KeySpace::Publications).await? {
            let record = self.index.record(key.id);
            let is_pending = record.is_some_and(|record| record.version == key.version);
            let checked = invariants::publication(&key, &marker, record);
            if is_pending {
                self.index.pending.insert(key.id);
            }
            self.note(checked);
        }
        Ok(())
    }

    async fn jobs(&mut self) -> Result<(), Error> {
        for (_, job) in self.all::<JobKey>(KeySpace::Jobs).await? {
            if let JobWork::ReachableFrom { id, .. } = job.work {
                self.index.purged.insert(id);
            }
        }
        Ok(())
    }

    async fn metadata(&mut self) -> Result<(), Error> {
        let mut documented = HashSet::new();
        let documents = self.documents().await?;
        self.phase.next("checking metadata", Some(documents.len() as u64));
        for (id, document) in documents {
            self.phase.advance(1);
            documented.insert(id);
            let Some(document) = document else { continue };
            match self.index.tabulars.get(&id) {
                Some(record) => {
                    self.report.broken.extend(invariants::metadata(record, &document).err());
                    self.report.published.push(PublishedMetadata {
                        warehouse: record.warehouse,
                        metadata_location: record.metadata_location.clone(),
                        document,
                        is_pending: self.index.pending.contains(&id),
                    });
                }
                None => match self.index.dropped.get(&id) {
                    Some(dropped) => self.note(invariants::metadata(&dropped.record, &document)),
                    None if self.index.purged.contains(&id) => {}
                    None => {
                        self.note(Err(format!("the metadata of {id} belongs to no table or view")))
                    }
                },
            }
        }
        for record in self.index.records() {
            let id = record.id;
            if !documented.contains(&id) {
                self.report.broken.push(format!("{id} has no metadata"));
            }
        }
        Ok(())
    }

    /// Returns the documents, with `None` for incomplete ones. Checks that all referenced chunks
    /// exist, and that all chunks are referenced.
    async fn documents(&mut self) -> Result<Vec<(Uuid, Option<Document>)>, Error> {
        let mut chunks: HashMap<Uuid, HashMap<ChunkHash, Bytes>> = HashMap::new();
        for (key, ChunkBytes(text)) in self.all::<ChunkKey>(KeySpace::MetadataChunks).await? {
            if ChunkHash::of(&text) != key.hash {
                self.note(Err(format!("chunk {:?} of {} differs from its hash", key.hash, key.id)));
            }
            chunks.entry(key.id).or_default().insert(key.hash, text);
        }
        let mut documents = Vec::new();
        for (MetadataKey(id), head) in self.all::<MetadataKey>(KeySpace::Metadata).await? {
            let mut own = chunks.remove(&id).unwrap_or_default();
            let document = head.complete(&own).map_err(|missing| {
                format!(
                    "chunk {missing:?} of the metadata of {id} is missing or has another length"
                )
            });
            for hash in head.chunks() {
                own.remove(&hash);
            }
            for hash in own.keys() {
                self.note(Err(format!("the metadata of {id} does not reference chunk {hash:?}")));
            }
            documents.push((id, document.map_err(|broken| self.note(Err(broken))).ok()));
        }
        for id in chunks.keys() {
            self.note(Err(format!("there are chunks for the metadata of {id}, but no metadata")));
        }
        Ok(documents)
    }

    async fn policies(&mut self) -> Result<(), Error> {
        let revisions = self.all::<PolicyRevisionKey>(KeySpace::PolicyLog).await?;
        let book = PolicySnapshot::read(self.store).await?;
        self.count(book.policies.len() + book.grants.len() + usize::from(book.number > 0));
        let broken = policy_snapshot::check(&book, revisions.iter().map(|(key, it)| (key.0, it)));
        self.report.broken.extend(broken);
        Ok(())
    }

    async fn ended_jobs(&mut self) -> Result<(), Error> {
        for (key, job) in self.all::<EndedJobKey>(KeySpace::EndedJobs).await? {
            if job.ended.is_none() {
                self.note(Err(format!(
                    "job {} is stored as an ended job, but has not ended",
                    key.0
                )));
            }
        }
        Ok(())
    }

    async fn api_keys(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<ApiKeyKey>(KeySpace::ApiKeys).await? {
            if record.id != key.0 {
                self.note(Err(format!("the record of API key {} has the id {}", key.0, record.id)));
            }
        }
        Ok(())
    }

    /// Decodes the records that have no other check.
    async fn check_others(&mut self) -> Result<(), Error> {
        let others = KeySpace::ALL.iter().filter(|space| space.rules().check == Check::Decoding);
        for &space in others {
            let mut entries = self.store.iterate(&KeyRange::all(space)).await?;
            while let Some(entry) = entries.next().await? {
                visit(space, Decoding { key: &entry.key, value: &entry.value })?;
                self.count(1);
            }
        }
        Ok(())
    }

    async fn unknown_spaces(&mut self) -> Result<(), Error> {
        for byte in (0..=u8::MAX).filter(|byte| KeySpace::of_byte(*byte).is_none()) {
            if self.store.any(&KeyRange::prefix([byte])).await? {
                self.note(Err(format!("there are keys in the unknown space 0x{byte:02x}")));
            }
        }
        Ok(())
    }
}

/// Decodes an entry.
struct Decoding<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl KeyVisitor for Decoding<'_> {
    type Output = Result<(), Error>;

    fn visit<K: Key>(self) -> Self::Output {
        K::decode(self.key)
            .ok_or_else(|| corrupt(self.key, "the key is invalid in its key space"))?;
        decode_value::<K>(self.key, self.value).map(drop)
    }
}
