//! Reads every record and checks every invariant, without writing.

mod report;

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use uuid::Uuid;

use super::codec::{Document, PieceText};
use super::error::Error;
use super::invariants::{self, Broken};
use super::jobs::Work;
use super::key_space::{Check, KeySpace};
use super::key_visitor::{Visitor, visit};
use super::keys::{
    ApiKeyKey, EndedJobKey, JobKey, Key, MetadataKey, NamespaceKey, NamespaceNameKey, PieceKey,
    PlaceKey, PolicyRevisionKey, PublicationKey, StoreKey, TabularKey, TabularNameKey, UuidKey,
    WarehouseKey,
};
use super::policy_book::{self, PolicyBook};
use super::read::{Range, Read, corrupt, decode_value};
use super::records::{
    FORMAT_VERSION, FORMAT_WITH_PLACES, FORMAT_WITH_UUIDS, NamespaceRecord, TabularRecord,
};
use slateberg_base::progress::{Phase, Progress};
use slateberg_model::ident::TabularKind;
use slateberg_model::text::PieceHash;

pub use report::{Published, Report};

/// Number of records to read at once.
const PAGE: usize = 10_000;

/// Checks every record. The report has the damage. Errors if the store cannot be read.
pub async fn walk(store: &impl Read, progress: &Progress) -> Result<Report, Error> {
    let mut walk = Walk {
        store,
        report: Report::default(),
        format_version: FORMAT_VERSION,
        phase: progress.phase("reading records", None),
        known: Known::default(),
    };
    let checks: BTreeSet<Check> = KeySpace::ALL.iter().map(|space| space.rules().check).collect();
    for check in checks {
        walk.check(check).await?;
    }
    walk.unknown_spaces().await?;
    Ok(walk.report)
}

/// Returns the id of the warehouse with this name.
pub async fn warehouse_id(store: &impl Read, name: &str) -> Result<Option<Uuid>, Error> {
    Ok(store.get(&WarehouseKey(name.to_owned())).await?.map(|record| record.id))
}

struct Walk<'a, R> {
    store: &'a R,
    report: Report,
    /// Format of the store. Records that only newer formats have are not missing.
    format_version: u32,
    phase: Phase,
    known: Known,
}

/// Records that later checks need.
#[derive(Default)]
struct Known {
    warehouses: HashSet<Uuid>,
    namespaces: HashMap<Uuid, NamespaceRecord>,
    tabulars: HashMap<Uuid, TabularRecord>,
    /// Tables and views whose current metadata file may be missing.
    pending: HashSet<Uuid>,
    /// Tables and views whose files a job deletes.
    purged: HashSet<Uuid>,
}

impl<R: Read> Walk<'_, R> {
    async fn check(&mut self, check: Check) -> Result<(), Error> {
        match check {
            Check::Store => self.store().await,
            Check::Warehouses => self.warehouses().await,
            Check::Namespaces => self.namespaces().await,
            Check::Tabulars => self.tabulars().await,
            Check::TabularNames => self.tabular_names().await,
            Check::Places => self.places().await,
            Check::Uuids => self.uuids().await,
            Check::Publications => self.publications().await,
            Check::Jobs => self.jobs().await,
            Check::Metadata => self.metadata().await,
            Check::Policies => self.policies().await,
            Check::EndedJobs => self.ended_jobs().await,
            Check::ApiKeys => self.api_keys().await,
            Check::Decoding => self.others().await,
        }
    }

    fn note(&mut self, finding: Result<(), Broken>) {
        self.report.broken.extend(finding.err());
    }

    async fn all<K: Key>(&mut self, space: KeySpace) -> Result<Vec<(K, K::Value)>, Error> {
        let mut entries = Vec::new();
        let mut range = Range::all(space);
        loop {
            let page = self.store.scan::<K>(&range, Some(PAGE)).await?;
            self.count(page.len());
            let last = page.last().map(|(key, _)| key.encode());
            let is_end = page.len() < PAGE;
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
            if !self.known.warehouses.insert(record.id) {
                self.note(Err(format!("warehouse {:?} has the id of another", key.0)));
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
                self.note(Err(format!("namespace {id} calls itself {}", record.id)));
            }
            if !named.contains(id) {
                self.note(Err(format!("namespace {id} ({:?}) has no name", record.name)));
            }
            if !self.known.warehouses.contains(&record.warehouse) {
                self.note(Err(format!("namespace {id} is in an unknown warehouse")));
            }
            let parent = record.parent;
            if parent != record.warehouse && !records.contains_key(&parent) {
                self.note(Err(format!("namespace {id} has no parent {parent}")));
            }
        }
        self.known.namespaces = records;
        Ok(())
    }

    async fn tabulars(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<TabularKey>(KeySpace::Tabulars).await? {
            match record.kind {
                TabularKind::Table => self.report.tables += 1,
                TabularKind::View => self.report.views += 1,
            }
            if record.id != key.0 {
                self.note(Err(format!("table or view {} calls itself {}", key.0, record.id)));
            }
            let at_root = record.namespace == record.warehouse;
            if !at_root && !self.known.namespaces.contains_key(&record.namespace) {
                self.note(Err(format!("{} is in a namespace that is not there", record.id)));
            }
            self.known.tabulars.insert(key.0, record);
        }
        Ok(())
    }

    async fn places(&mut self) -> Result<(), Error> {
        let mut places: HashMap<Uuid, usize> = HashMap::new();
        for (key, entry) in self.all::<PlaceKey>(KeySpace::Places).await? {
            if entry.id != key.id || !self.known.tabulars.contains_key(&key.id) {
                self.note(Err(format!("a place is that of {}, which is not there", key.id)));
            }
            *places.entry(key.id).or_default() += 1;
        }
        if self.format_version < FORMAT_WITH_PLACES {
            return Ok(());
        }
        for (id, record) in &self.known.tabulars {
            let found = places.get(id).copied().unwrap_or_default();
            let locations = || record.further_paths.iter().chain([&record.location]);
            // A location with percent-encoded characters has a second key, for its decoded
            // spelling, unless an older version has written it.
            let encoded = locations().filter(|location| location.contains('%')).count();
            let least = locations().count();
            if !(least..=least + encoded).contains(&found) {
                let broken = format!("{id} has {found} places, not those of its record");
                self.report.broken.push(broken);
            }
        }
        Ok(())
    }

    async fn uuids(&mut self) -> Result<(), Error> {
        let mut found = HashSet::new();
        for (key, entry) in self.all::<UuidKey>(KeySpace::Uuids).await? {
            let record = self.known.tabulars.get(&key.id).filter(|record| record.uuid == key.uuid);
            if entry.id != key.id || record.is_none() {
                self.note(Err(format!(
                    "UUID {} is that of {}, which has another",
                    key.uuid, key.id
                )));
            }
            found.insert(key.id);
        }
        let kept = self.format_version >= FORMAT_WITH_UUIDS;
        for id in self.known.tabulars.keys().filter(|id| kept && !found.contains(id)) {
            self.report.broken.push(format!("{id} is not found by its UUID"));
        }
        Ok(())
    }

    async fn tabular_names(&mut self) -> Result<(), Error> {
        let mut named = HashSet::new();
        let mut views = HashMap::new();
        for space in [KeySpace::ViewNames, KeySpace::TableNames] {
            for (key, entry) in self.all::<TabularNameKey>(space).await? {
                let record = self.known.tabulars.get(&entry.id);
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
        for (id, record) in &self.known.tabulars {
            if !named.contains(id) {
                self.report.broken.push(format!("{id} ({:?}) has no name", record.name));
            }
        }
        Ok(())
    }

    async fn publications(&mut self) -> Result<(), Error> {
        for (key, marker) in self.all::<PublicationKey>(KeySpace::Publications).await? {
            let record = self.known.tabulars.get(&key.id);
            if record.is_some_and(|record| record.version == key.version) {
                self.known.pending.insert(key.id);
            }
            self.note(invariants::publication(&key, &marker, record));
        }
        Ok(())
    }

    async fn jobs(&mut self) -> Result<(), Error> {
        for (_, job) in self.all::<JobKey>(KeySpace::Jobs).await? {
            if let Work::ReachableFrom { id, .. } = job.work {
                self.known.purged.insert(id);
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
            match self.known.tabulars.get(&id) {
                Some(record) => {
                    self.report.broken.extend(invariants::metadata(record, &document).err());
                    self.report.published.push(Published {
                        warehouse: record.warehouse,
                        metadata_location: record.metadata_location.clone(),
                        document,
                        is_pending: self.known.pending.contains(&id),
                    });
                }
                None if self.known.purged.contains(&id) => {}
                None => self.note(Err(format!("the metadata of {id} belongs to nothing"))),
            }
        }
        for id in self.known.tabulars.keys() {
            if !documented.contains(id) {
                self.report.broken.push(format!("{id} has no metadata"));
            }
        }
        Ok(())
    }

    /// Returns the documents, with `None` for incomplete ones, and checks that every referenced
    /// chunk exists, and no other.
    async fn documents(&mut self) -> Result<Vec<(Uuid, Option<Document>)>, Error> {
        let mut pieces: HashMap<Uuid, HashMap<PieceHash, Bytes>> = HashMap::new();
        for (key, PieceText(text)) in self.all::<PieceKey>(KeySpace::MetadataPieces).await? {
            if PieceHash::of(&text) != key.hash {
                self.note(Err(format!("piece {:?} of {} holds another text", key.hash, key.id)));
            }
            pieces.entry(key.id).or_default().insert(key.hash, text);
        }
        let mut documents = Vec::new();
        for (MetadataKey(id), head) in self.all::<MetadataKey>(KeySpace::Metadata).await? {
            let mut own = pieces.remove(&id).unwrap_or_default();
            let document = head.complete(&own).map_err(|missing| {
                format!("piece {missing:?} of the metadata of {id} is missing or of another length")
            });
            for hash in head.pieces() {
                own.remove(&hash);
            }
            for hash in own.keys() {
                self.note(Err(format!("the metadata of {id} does not know its piece {hash:?}")));
            }
            documents.push((id, document.map_err(|broken| self.note(Err(broken))).ok()));
        }
        for id in pieces.keys() {
            self.note(Err(format!("there are pieces of the metadata of {id}, which is not there")));
        }
        Ok(documents)
    }

    async fn policies(&mut self) -> Result<(), Error> {
        let revisions = self.all::<PolicyRevisionKey>(KeySpace::PolicyLog).await?;
        let book = PolicyBook::read(self.store).await?;
        self.count(book.policies.len() + book.grants.len() + usize::from(book.number > 0));
        let broken = policy_book::check(&book, revisions.iter().map(|(key, it)| (key.0, it)));
        self.report.broken.extend(broken);
        Ok(())
    }

    async fn ended_jobs(&mut self) -> Result<(), Error> {
        for (key, job) in self.all::<EndedJobKey>(KeySpace::EndedJobs).await? {
            if job.ended.is_none() {
                self.note(Err(format!(
                    "job {} is among those that have ended, and has not",
                    key.0
                )));
            }
        }
        Ok(())
    }

    async fn api_keys(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<ApiKeyKey>(KeySpace::ApiKeys).await? {
            if record.id != key.0 {
                self.note(Err(format!("API key {} calls itself {}", key.0, record.id)));
            }
        }
        Ok(())
    }

    /// Decodes the records that have no other check.
    async fn others(&mut self) -> Result<(), Error> {
        let others = KeySpace::ALL.iter().filter(|space| space.rules().check == Check::Decoding);
        for &space in others {
            let mut entries = self.store.iterate(&Range::all(space)).await?;
            while let Some(entry) = entries.next().await? {
                visit(space, Decoding { key: &entry.key, value: &entry.value })?;
                self.count(1);
            }
        }
        Ok(())
    }

    async fn unknown_spaces(&mut self) -> Result<(), Error> {
        for byte in (0..=u8::MAX).filter(|byte| KeySpace::of_byte(*byte).is_none()) {
            if self.store.any(&Range::prefix([byte])).await? {
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

impl Visitor for Decoding<'_> {
    type Output = Result<(), Error>;

    fn visit<K: Key>(self) -> Self::Output {
        K::decode(self.key).ok_or_else(|| corrupt(self.key, "not a key of its space"))?;
        decode_value::<K>(self.key, self.value).map(drop)
    }
}
