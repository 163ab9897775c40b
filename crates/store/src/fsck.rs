//! Walks every record and checks every invariant, without writing a byte.

mod report;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use uuid::Uuid;

use super::codec::{Document, PieceText};
use super::error::Error;
use super::invariants::{self, Broken};
use super::jobs::Work;
use super::keys::{
    ApiKeyKey, ChangeKey, EndedJobKey, IdempotencyKey, JobKey, Key, MetadataKey, NamespaceKey,
    NamespaceNameKey, PieceKey, PlaceKey, PolicyRevisionKey, PublicationKey, RevokedKeyKey,
    SigningKeyKey, StoreKey, TabularKey, TabularNameKey, UuidKey, WarehouseKey, space,
    tabular_names,
};
use super::policy_book::{self, PolicyBook};
use super::read::{Range, Read};
use super::records::{
    FORMAT_VERSION, FORMAT_WITH_PLACES, FORMAT_WITH_UUIDS, NamespaceRecord, TabularRecord,
};
use slateberg_base::progress::{Phase, Progress};
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::text::PieceHash;
use slateberg_model::view::ViewMetadata;

pub use report::{Published, Report};

/// Records that are read at once.
const PAGE: usize = 10_000;

/// Walks the store. An error is a store that cannot be read at all; what is merely wrong in it stands
/// in the report.
pub async fn walk(store: &impl Read, progress: &Progress) -> Result<Report, Error> {
    let (report, format_version) = (Report::default(), FORMAT_VERSION);
    let phase = progress.phase("reading records", None);
    let mut walk = Walk { store, report, format_version, phase };
    let warehouses = walk.store_and_warehouses().await?;
    let namespaces = walk.namespaces(&warehouses).await?;
    let tabulars = walk.tabulars(&namespaces).await?;
    walk.tabular_names(&tabulars).await?;
    walk.places(&tabulars).await?;
    walk.uuids(&tabulars).await?;
    let pending = walk.publications(&tabulars).await?;
    walk.metadata(&tabulars, &pending).await?;
    walk.policies().await?;
    walk.other_records().await?;
    walk.strangers().await?;
    Ok(walk.report)
}

/// The id of a warehouse by its name, if the store knows it.
pub async fn warehouse_id(store: &impl Read, name: &str) -> Result<Option<Uuid>, Error> {
    Ok(store.get(&WarehouseKey(name.to_owned())).await?.map(|record| record.id))
}

struct Walk<'a, R> {
    store: &'a R,
    report: Report,
    /// The format of the store: what a newer one has besides is not missed.
    format_version: u32,
    phase: Phase,
}

impl<R: Read> Walk<'_, R> {
    fn note(&mut self, finding: Result<(), Broken>) {
        self.report.broken.extend(finding.err());
    }

    async fn all<K: Key>(&mut self, space: u8) -> Result<Vec<(K, K::Value)>, Error> {
        let mut entries = Vec::new();
        let mut range = Range::prefix([space]);
        loop {
            let page = self.store.scan::<K>(&range, Some(PAGE)).await?;
            self.report.records += page.len();
            self.phase.advance(page.len() as u64);
            let last = page.last().map(|(key, _)| key.encode());
            let is_end = page.len() < PAGE;
            entries.extend(page);
            if is_end {
                return Ok(entries);
            }
            range = range.behind(last);
        }
    }

    async fn store_and_warehouses(&mut self) -> Result<HashSet<Uuid>, Error> {
        match self.store.get(&StoreKey).await? {
            None => self.note(Err("the store has no format record".to_owned())),
            Some(format) => {
                self.report.records += 1;
                self.format_version = format.format_version;
                format.check()?;
            }
        }
        let mut ids = HashSet::new();
        for (key, record) in self.all::<WarehouseKey>(space::WAREHOUSE_NAMES).await? {
            if !ids.insert(record.id) {
                self.note(Err(format!("warehouse {:?} has the id of another", key.0)));
            }
        }
        Ok(ids)
    }

    async fn namespaces(
        &mut self,
        warehouses: &HashSet<Uuid>,
    ) -> Result<HashMap<Uuid, NamespaceRecord>, Error> {
        let records: HashMap<_, _> = self
            .all::<NamespaceKey>(space::NAMESPACES)
            .await?
            .into_iter()
            .map(|(key, record)| (key.0, record))
            .collect();
        self.report.namespaces = records.len();
        let mut named = HashSet::new();
        for (key, entry) in self.all::<NamespaceNameKey>(space::NAMESPACE_NAMES).await? {
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
            if !warehouses.contains(&record.warehouse) {
                self.note(Err(format!("namespace {id} is in an unknown warehouse")));
            }
            let parent = record.parent;
            if parent != record.warehouse && !records.contains_key(&parent) {
                self.note(Err(format!("namespace {id} has no parent {parent}")));
            }
        }
        Ok(records)
    }

    async fn tabulars(
        &mut self,
        namespaces: &HashMap<Uuid, NamespaceRecord>,
    ) -> Result<HashMap<Uuid, TabularRecord>, Error> {
        let mut records = HashMap::new();
        for (key, record) in self.all::<TabularKey>(space::TABULARS).await? {
            match record.kind {
                TabularKind::Table => self.report.tables += 1,
                TabularKind::View => self.report.views += 1,
            }
            if record.id != key.0 {
                self.note(Err(format!("table or view {} calls itself {}", key.0, record.id)));
            }
            let at_root = record.namespace == record.warehouse;
            if !at_root && !namespaces.contains_key(&record.namespace) {
                self.note(Err(format!("{} is in a namespace that is not there", record.id)));
            }
            records.insert(key.0, record);
        }
        Ok(records)
    }

    async fn places(&mut self, tabulars: &HashMap<Uuid, TabularRecord>) -> Result<(), Error> {
        let mut places: HashMap<Uuid, usize> = HashMap::new();
        for (key, entry) in self.all::<PlaceKey>(space::PLACES).await? {
            if entry.id != key.id || !tabulars.contains_key(&key.id) {
                self.note(Err(format!("a place is that of {}, which is not there", key.id)));
            }
            *places.entry(key.id).or_default() += 1;
        }
        let kept = tabulars.iter().filter(|_| self.format_version >= FORMAT_WITH_PLACES);
        for (id, record) in kept.collect::<Vec<_>>() {
            let found = places.get(id).copied().unwrap_or_default();
            let locations = || record.further_paths.iter().chain([&record.location]);
            // A location with percent-encoded characters has a second key, for its decoded spelling,
            // unless an older version has written it.
            let encoded = locations().filter(|location| location.contains('%')).count();
            let least = locations().count();
            if !(least..=least + encoded).contains(&found) {
                self.note(Err(format!("{id} has {found} places, not those of its record")));
            }
        }
        Ok(())
    }

    async fn uuids(&mut self, tabulars: &HashMap<Uuid, TabularRecord>) -> Result<(), Error> {
        let mut found = HashSet::new();
        for (key, entry) in self.all::<UuidKey>(space::UUIDS).await? {
            let record = tabulars.get(&key.id).filter(|record| record.uuid == key.uuid);
            if entry.id != key.id || record.is_none() {
                self.note(Err(format!(
                    "UUID {} is that of {}, which has another",
                    key.uuid, key.id
                )));
            }
            found.insert(key.id);
        }
        let kept = self.format_version >= FORMAT_WITH_UUIDS;
        for id in tabulars.keys().filter(|id| kept && !found.contains(id)) {
            self.note(Err(format!("{id} is not found by its UUID")));
        }
        Ok(())
    }

    async fn tabular_names(
        &mut self,
        tabulars: &HashMap<Uuid, TabularRecord>,
    ) -> Result<(), Error> {
        let mut named = HashSet::new();
        let mut views = HashMap::new();
        for kind in [TabularKind::View, TabularKind::Table] {
            for (key, entry) in self.all::<TabularNameKey>(tabular_names(kind)).await? {
                self.note(invariants::tabular_name(&key, &entry, tabulars.get(&entry.id)));
                let name = (key.namespace, key.name.clone());
                if kind == TabularKind::Table {
                    self.note(invariants::one_kind_per_name(&key, views.get(&name)));
                } else {
                    views.insert(name, entry);
                }
                if !named.insert(entry.id) {
                    self.note(Err(format!("{} has two names", entry.id)));
                }
            }
        }
        for (id, record) in tabulars {
            if !named.contains(id) {
                self.note(Err(format!("{id} ({:?}) has no name", record.name)));
            }
        }
        Ok(())
    }

    /// Checks the markers, and says which tables' current metadata may not be published yet.
    async fn publications(
        &mut self,
        tabulars: &HashMap<Uuid, TabularRecord>,
    ) -> Result<HashSet<Uuid>, Error> {
        let mut pending = HashSet::new();
        for (key, marker) in self.all::<PublicationKey>(space::PUBLICATIONS).await? {
            let record = tabulars.get(&key.id);
            self.note(invariants::publication(&key, &marker, record));
            if record.is_some_and(|record| record.version == key.version) {
                pending.insert(key.id);
            }
        }
        Ok(pending)
    }

    async fn metadata(
        &mut self,
        tabulars: &HashMap<Uuid, TabularRecord>,
        pending: &HashSet<Uuid>,
    ) -> Result<(), Error> {
        let mut purged = HashSet::new();
        for (_, job) in self.all::<JobKey>(space::JOBS).await? {
            if let Work::ReachableFrom { id, .. } = job.work {
                purged.insert(id);
            }
        }
        let mut documented = HashSet::new();
        let documents = self.documents().await?;
        self.phase.next("checking metadata", Some(documents.len() as u64));
        for (id, document) in documents {
            self.phase.advance(1);
            documented.insert(id);
            let Some(document) = document else { continue };
            match tabulars.get(&id) {
                Some(record) => {
                    self.note(metadata_of(record, &document));
                    self.report.published.push(Published {
                        warehouse: record.warehouse,
                        metadata_location: record.metadata_location.clone(),
                        document,
                        is_pending: pending.contains(&id),
                    });
                }
                None if purged.contains(&id) => {}
                None => self.note(Err(format!("the metadata of {id} belongs to nothing"))),
            }
        }
        for id in tabulars.keys() {
            if !documented.contains(id) {
                self.note(Err(format!("{id} has no metadata")));
            }
        }
        Ok(())
    }

    /// The documents, none for one that is not whole: every piece that is named is there, and no other.
    async fn documents(&mut self) -> Result<Vec<(Uuid, Option<Document>)>, Error> {
        let mut pieces: HashMap<Uuid, HashMap<PieceHash, Bytes>> = HashMap::new();
        for (key, PieceText(text)) in self.all::<PieceKey>(space::METADATA_PIECES).await? {
            if PieceHash::of(&text) != key.hash {
                self.note(Err(format!("piece {:?} of {} holds another text", key.hash, key.id)));
            }
            pieces.entry(key.id).or_default().insert(key.hash, text);
        }
        let mut documents = Vec::new();
        for (MetadataKey(id), head) in self.all::<MetadataKey>(space::METADATA).await? {
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

    /// The policy log from its beginning comes to what is there.
    async fn policies(&mut self) -> Result<(), Error> {
        let revisions = self.all::<PolicyRevisionKey>(space::POLICY_LOG).await?;
        let book = PolicyBook::read(self.store).await?;
        self.report.records += book.policies.len() + book.grants.len();
        self.report.records += usize::from(book.number > 0);
        let broken = policy_book::check(&book, revisions.iter().map(|(key, it)| (key.0, it)));
        self.report.broken.extend(broken);
        Ok(())
    }

    async fn other_records(&mut self) -> Result<(), Error> {
        self.all::<IdempotencyKey>(space::IDEMPOTENCY).await?;
        self.all::<ChangeKey>(space::CHANGES).await?;
        for (key, job) in self.all::<EndedJobKey>(space::ENDED_JOBS).await? {
            if job.ended.is_none() {
                self.note(Err(format!(
                    "job {} is among those that have ended, and has not",
                    key.0
                )));
            }
        }
        for (key, record) in self.all::<ApiKeyKey>(space::API_KEYS).await? {
            if record.id != key.0 {
                self.note(Err(format!("API key {} calls itself {}", key.0, record.id)));
            }
        }
        self.all::<RevokedKeyKey>(space::REVOKED_KEYS).await?;
        self.all::<SigningKeyKey>(space::SIGNING_KEYS).await?;
        Ok(())
    }

    /// Finds keys of no known space.
    async fn strangers(&mut self) -> Result<(), Error> {
        for space in (0..=u8::MAX).filter(|space| !KNOWN.contains(space)) {
            if self.store.any(&Range::prefix([space])).await? {
                self.note(Err(format!("there are keys in the unknown space 0x{space:02x}")));
            }
        }
        Ok(())
    }
}

/// The spaces of keys that this binary knows.
pub(crate) const KNOWN: [u8; 23] = [
    space::STORE,
    space::WAREHOUSE_NAMES,
    space::NAMESPACE_NAMES,
    space::NAMESPACES,
    space::TABLE_NAMES,
    space::VIEW_NAMES,
    space::TABULARS,
    space::METADATA,
    space::METADATA_PIECES,
    space::PLACES,
    space::UUIDS,
    space::PUBLICATIONS,
    space::JOBS,
    space::ENDED_JOBS,
    space::IDEMPOTENCY,
    space::CHANGES,
    space::POLICY_HEAD,
    space::POLICY_LOG,
    space::POLICIES,
    space::GRANTS,
    space::API_KEYS,
    space::SIGNING_KEYS,
    space::REVOKED_KEYS,
];

/// A record and its metadata tell the same table or view.
fn metadata_of(record: &TabularRecord, document: &Document) -> Result<(), Broken> {
    let id = record.id;
    if document.version != record.version {
        return Err(format!(
            "{id} is at version {}, its metadata at {}",
            record.version, document.version
        ));
    }
    let (uuid, location) = match record.kind {
        TabularKind::Table => TableMetadata::from_text(&document.text)
            .map(|metadata| (metadata.table_uuid, metadata.location)),
        TabularKind::View => ViewMetadata::parse(&document.text.to_bytes())
            .map(|metadata| (metadata.view_uuid, metadata.location)),
    }
    .map_err(|refusal| format!("the metadata of {id} cannot be read: {refusal}"))?;
    if uuid != record.uuid || location != record.location {
        return Err(format!("the metadata of {id} has another uuid or location than its record"));
    }
    Ok(())
}
