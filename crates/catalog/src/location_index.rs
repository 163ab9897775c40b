//! Index of the locations and UUIDs of tables and views.
//!
//! Each location of a table or view has its own key in the store. The key is written in the same
//! transaction as the record. Before the catalog vends credentials for a location, it checks in
//! this index whether files of other tables are there. There are such files if an operator has
//! placed a table around, inside or at the location of another table, or has registered a table
//! twice. The UUID shows that a table was registered twice, even if the locations differ. Before a
//! job deletes files, it looks up in this index which other tables may need these files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use uuid::Uuid;

use super::{Result, lookup};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_objects::location::Location;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{Key, LocationKey, TabularKey, UuidKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{
    FORMAT_WITH_LOCATIONS, FORMAT_WITH_UUIDS, IndexEntry, TabularRecord,
};
use slateberg_store::txn::Transaction;
use slateberg_store::{self as store, Store};

/// Properties that may direct files to paths outside of the location.
const PATHS: [&str; 4] = [
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
];

/// Maximum number of location keys of one table or view. The location has up to two keys: one as
/// written, and one percent-decoded ([`Location::spellings`]). Each property in [`PATHS`] also has
/// up to two keys.
const KEYS_MAX: usize = 2 * (PATHS.len() + 1);

/// Tables and views that a search in the index considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// Existing tables and views. Dropped ones do not occupy their locations.
    Existing,
    /// Existing and dropped tables and views. The files of dropped ones must not be deleted.
    WithDropped,
}

impl Owners {
    fn include(self, entry: IndexEntry) -> bool {
        self == Self::WithDropped || !entry.dropped
    }
}

/// Number of tables and views that one transaction adds to the index.
const BATCH: usize = 256;

/// Returns the paths outside of `location` to which properties direct files.
pub(super) fn further_paths(location: &str, properties: &BTreeMap<String, String>) -> Vec<String> {
    let own = Location::parse(location).ok();
    let mut seen = BTreeSet::new();
    let set = PATHS.iter().filter_map(|key| properties.get(*key));
    set.filter(|path| {
        let Ok(path) = Location::parse(path) else { return false };
        !own.as_ref().is_some_and(|own| path.is_within(own)) && seen.insert(path.parts())
    })
    .cloned()
    .collect()
}

/// Returns all locations of a table or view.
pub(super) fn locations_of(record: &TabularRecord) -> impl Iterator<Item = &String> {
    std::iter::once(&record.location).chain(&record.further_paths)
}

/// Returns the keys of all locations of a table or view. A location that can be written in two ways
/// has two keys.
fn path_segments(record: &TabularRecord) -> BTreeSet<Vec<String>> {
    let all = locations_of(record).filter_map(|text| Location::parse(text).ok());
    all.flat_map(|location| location.spellings()).collect()
}

/// Updates the location keys and the UUID key of a table or view that was changed, created or
/// dropped.
pub(super) fn put_index_entries(
    t: &Transaction,
    before: Option<&TabularRecord>,
    after: Option<&TabularRecord>,
) -> std::result::Result<(), store::Error> {
    let of = |record: Option<&TabularRecord>| match record {
        Some(record) => (record.id, path_segments(record)),
        None => (Uuid::nil(), BTreeSet::new()),
    };
    let ((old_id, old), (id, new)) = (of(before), of(after));
    for parts in old.difference(&new) {
        t.delete(&LocationKey { parts: parts.clone(), id: old_id })?;
    }
    for parts in new.difference(&old) {
        t.put(&LocationKey { parts: parts.clone(), id }, &IndexEntry { id, dropped: false })?;
    }
    let uuid = |record: &TabularRecord| UuidKey { uuid: record.uuid, id: record.id };
    let (old, new) = (before.map(uuid), after.map(uuid));
    if old != new {
        old.iter().try_for_each(|key| t.delete(key))?;
        new.iter().try_for_each(|key| t.put(key, &IndexEntry { id: key.id, dropped: false }))?;
    }
    Ok(())
}

/// Marks the entries of a table or view as dropped or, after an undrop, as existing.
pub(super) fn mark_index_entries(
    t: &Transaction,
    record: &TabularRecord,
    dropped: bool,
) -> std::result::Result<(), store::Error> {
    let entry = IndexEntry { id: record.id, dropped };
    for parts in path_segments(record) {
        t.put(&LocationKey { parts, id: record.id }, &entry)?;
    }
    t.put(&UuidKey { uuid: record.uuid, id: record.id }, &entry)
}

/// Returns the tables and views (`owners`) with a location that equals or contains this one. If
/// `below`, also returns those with a location inside this one. `None` if a scan found `limit` or
/// more locations, because the result may then be incomplete. The caller cannot detect this from
/// the number of tables, because a table may have several locations.
pub(super) async fn at(
    store: &impl StoreRead,
    owners: Owners,
    (location, below): (&Location, bool),
    limit: usize,
) -> Result<Option<BTreeSet<Uuid>>> {
    let mut ranges = BTreeSet::new();
    for parts in location.spellings() {
        ranges.extend((1..=parts.len()).map(|end| LocationKey::at(&parts[..end])));
        if below {
            ranges.insert(LocationKey::below(&parts));
        }
    }
    let mut found = BTreeSet::new();
    for prefix in ranges {
        match owned::<LocationKey>(store, owners, &KeyRange::prefix(prefix), limit).await? {
            Some(keys) => found.extend(keys.into_iter().map(|key| key.id)),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the keys of the `owners` in a range. `None` if there are `limit` or more keys.
async fn owned<K: Key<Value = IndexEntry>>(
    store: &impl StoreRead,
    owners: Owners,
    range: &KeyRange,
    limit: usize,
) -> Result<Option<Vec<K>>> {
    let mut owned = Vec::new();
    let mut range = range.clone();
    loop {
        let page = store.scan::<K>(&range, Some(limit)).await?;
        let is_last = page.len() < limit;
        let last = page.last().map(|(key, _)| key.encode());
        owned.extend(
            page.into_iter().filter(|(_, entry)| owners.include(*entry)).map(|(key, _)| key),
        );
        if owned.len() >= limit {
            return Ok(None);
        }
        if is_last {
            return Ok(Some(owned));
        }
        range = range.behind(last);
    }
}

/// Returns the `owners` with this UUID. `None` if there are `limit` or more.
pub(super) async fn with_uuid(
    store: &impl StoreRead,
    owners: Owners,
    uuid: Uuid,
    limit: usize,
) -> Result<Option<BTreeSet<Uuid>>> {
    let range = KeyRange::below(KeySpace::Uuids, uuid);
    let found = owned::<UuidKey>(store, owners, &range, limit).await?;
    Ok(found.map(|keys| keys.into_iter().map(|key| key.id).collect()))
}

/// Whether no other existing table or view has a location at, around or below this one.
pub(super) async fn is_alone(
    store: &impl StoreRead,
    id: Uuid,
    location: &Location,
) -> Result<bool> {
    let (owners, lengths) = (Owners::Existing, 1..location.parts().len());
    Ok(!has_others_below(store, owners, id, location).await?
        && !has_others_around(store, owners, id, location, lengths).await?)
}

/// Whether another table or view has a location at or below this one.
pub(super) async fn has_others_below(
    store: &impl StoreRead,
    owners: Owners,
    id: Uuid,
    location: &Location,
) -> Result<bool> {
    for parts in location.spellings() {
        if has_others(store, owners, id, LocationKey::below(&parts)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether another table or view has a location that is a prefix of this one. Considers only
/// locations whose number of parts is in `lengths`.
pub(super) async fn has_others_around(
    store: &impl StoreRead,
    owners: Owners,
    id: Uuid,
    location: &Location,
    lengths: Range<usize>,
) -> Result<bool> {
    for parts in location.spellings() {
        for around in lengths.clone().map_while(|length| parts.get(..length)) {
            if has_others(store, owners, id, LocationKey::at(around)).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

async fn has_others(
    store: &impl StoreRead,
    owners: Owners,
    id: Uuid,
    prefix: Vec<u8>,
) -> Result<bool> {
    // The limit is one more than the number of keys that the table itself can have. So a scan that
    // reaches the limit has found a key of another table.
    let keys = owned::<LocationKey>(store, owners, &KeyRange::prefix(prefix), KEYS_MAX + 1).await?;
    // `None` means that the limit was reached, so there is another table.
    Ok(keys.is_none_or(|keys| keys.iter().any(|key| key.id != id)))
}

/// Returns the locations of other tables and views at or below this location, including dropped
/// ones. `None` if there are `limit` or more keys.
pub(super) async fn others_below(
    store: &impl StoreRead,
    id: Uuid,
    location: &Location,
    limit: usize,
) -> Result<Option<BTreeSet<Vec<String>>>> {
    let mut others = BTreeSet::new();
    for parts in location.spellings() {
        let range = KeyRange::prefix(LocationKey::below(&parts));
        let found = owned::<LocationKey>(store, Owners::WithDropped, &range, limit).await?;
        let Some(found) = found else { return Ok(None) };
        let keys = found.into_iter().filter(|key| key.id != id);
        others.extend(keys.map(|key| key.parts));
    }
    Ok(Some(others))
}

/// Whether the catalog generated this location for the table with this id. The last part of a
/// generated location ends with `-` and the id. The id of a table is unknown before the table
/// exists, so no other table can have been placed at this location earlier.
pub(super) fn is_generated_for(location: &Location, id: Uuid) -> bool {
    let mut text = Uuid::encode_buffer();
    let id = id.simple().encode_lower(&mut text);
    location.name().and_then(|name| name.strip_suffix(&*id)).is_some_and(|rest| rest.ends_with('-'))
}

/// Adds all tables and views to the index of a store that an older binary has written.
#[boxed]
pub async fn ensure_location_index(store: &Store, permit: &Permit<Maintain>) -> Result<()> {
    let Some(format) = store.format_version().await? else { return Ok(()) };
    if format >= FORMAT_WITH_UUIDS {
        return Ok(());
    }
    let mut after = None;
    loop {
        let range = KeyRange::all(KeySpace::Tabulars).behind(after.take());
        let batch = store.latest().scan::<TabularKey>(&range, Some(BATCH)).await?;
        let Some((last, _)) = batch.last() else { return Ok(()) };
        after = Some(last.encode());
        let batch = &batch;
        let ((), accepted) = store
            .transact("ensure_location_index", permit, |t| async move {
                for (key, record) in batch {
                    if format >= FORMAT_WITH_LOCATIONS {
                        put_index_entries(&t, None, Some(record))?;
                        continue;
                    }
                    // The record does not contain the paths in the properties, so they are read
                    // from the metadata.
                    let Some(found) = lookup::tabular_by_id(&*t, key.0).await? else { continue };
                    let properties = properties(found.record.kind, &found.document.text);
                    let further_paths = further_paths(&found.record.location, &properties);
                    let record = TabularRecord { further_paths, ..found.record.clone() };
                    t.put(key, &record)?;
                    put_index_entries(&t, None, Some(&record))?;
                }
                Ok::<_, super::Error>(())
            })
            .await?;
        accepted.durable().await?;
    }
}

/// Returns the properties in metadata. For unreadable metadata, returns no properties. This is
/// safe: clients cannot access the files of such a table through the catalog. `fsck` reports the
/// problem.
fn properties(kind: TabularKind, text: &SegmentedJson) -> BTreeMap<String, String> {
    match kind {
        TabularKind::Table => TableMetadata::from_segmented_json(text).map(|it| it.properties),
        TabularKind::View => ViewMetadata::parse(&text.to_bytes()).map(|it| it.properties),
    }
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use slateberg_authz::action::Maintain;
    use slateberg_authz::permit::{Permit, Task};
    use slateberg_store::Store;
    use slateberg_store::open::StoreLocation;
    use slateberg_store::settings::Settings;

    use super::*;

    async fn in_memory() -> Store {
        let store_location = StoreLocation {
            object_store: Arc::new(InMemory::new()),
            path: "state".to_owned(),
            conditional_update: true,
            directory: None,
            log: None,
            encryption: None,
            storage: Default::default(),
        };
        Store::open(&store_location, Settings::default()).await.expect("the store opens")
    }

    #[tokio::test]
    async fn truncated_scan_is_reported() {
        let store = in_memory().await;
        let id = Uuid::max();
        let record = &TabularRecord {
            id,
            kind: TabularKind::Table,
            warehouse: id,
            namespace: id,
            name: "t".to_owned(),
            uuid: id,
            location: "s3://b/w/t".to_owned(),
            further_paths: vec!["s3://b/w/data".to_owned(), "s3://b/w/metadata".to_owned()],
            metadata_location: String::new(),
            version: 1,
            created_ms: 0,
            updated_ms: 0,
            owner: None,
        };
        let permit = Permit::<Maintain>::for_task(Task::Restore);
        let written = store.transact("places", &permit, |t| async move {
            put_index_entries(&t, None, Some(record))
        });
        let ((), accepted) = written.await.expect("it is written");
        accepted.durable().await.expect("it is durable");
        let around = Location::parse("s3://b/w").expect("it is valid");
        let found = async |limit| {
            let found = at(&store.latest(), Owners::Existing, (&around, true), limit).await;
            found.expect("it is read")
        };
        assert_eq!(found(3).await, None, "the result may be incomplete");
        assert_eq!(found(4).await, Some(BTreeSet::from([id])));
        let namesakes = async |limit| {
            let found = with_uuid(&store.latest(), Owners::Existing, id, limit).await;
            found.expect("it is read")
        };
        assert_eq!(namesakes(1).await, None);
        assert_eq!(namesakes(2).await, Some(BTreeSet::from([id])));
    }

    #[test]
    fn location_properties_are_locations_of_the_table() {
        let properties = BTreeMap::from([
            ("write.data.path".to_owned(), "s3://b/data/t".to_owned()),
            ("write.object-storage.path".to_owned(), "s3a://b/data/t/".to_owned()),
            ("write.metadata.path".to_owned(), "s3://b/w/t/meta".to_owned()),
            ("write.folder-storage.path".to_owned(), "nowhere".to_owned()),
        ]);
        assert_eq!(further_paths("s3://b/w/t", &properties), ["s3://b/data/t"]);
    }
}
