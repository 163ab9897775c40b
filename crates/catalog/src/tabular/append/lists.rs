//! [`ManifestLists`]: reads manifest lists of tables, and caches their manifests.

use uuid::Uuid;

use crate::location_index::locations_of;
use crate::settings::Settings;
use slateberg_model::rebase::NotRebased;
use slateberg_model::snapshot::Snapshot;
use slateberg_objects::Objects;
use slateberg_objects::location::Location;
use slateberg_objects::manifest_list::{ListBlocks, ManifestList};
use slateberg_store::records::TabularRecord;
use slateberg_telemetry::cache::ByteCache;
use slateberg_telemetry::collection::Collection;

/// The expected size of an entry, in bytes.
const TYPICAL_BYTES: u64 = 64 << 10;
/// Lists of this size or more, in bytes, are parsed on a thread for blocking work.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// The manifests of recently used manifest lists, by the location of the list and the format
/// version of the table. A list never changes.
pub(crate) struct ManifestLists(ByteCache<(String, u8), ListBlocks>);

/// The table of a commit, and where to read and write its files.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) objects: &'a Objects,
    pub(super) lists: &'a ManifestLists,
    pub(super) record: &'a TabularRecord,
}

impl ManifestLists {
    /// Creates an empty cache within the bounds of these settings. Only tables whose appends are
    /// rebased use it.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self(ByteCache::new(settings.manifest_list_cache_bytes(), TYPICAL_BYTES))
    }

    /// Adds the manifests of a new list.
    pub(super) fn insert(&self, location: String, format_version: u8, blocks: ListBlocks) {
        let bytes = location.len() + blocks.bytes();
        self.0.insert((location, format_version), blocks, bytes);
    }

    /// Returns the manifests of the branch whose current snapshot is `head`, in the form for this
    /// format version.
    pub(super) async fn of_branch(
        &self,
        objects: &Objects,
        record: &TabularRecord,
        format_version: u8,
        head: Option<&Snapshot>,
    ) -> Result<ListBlocks, NotRebased> {
        let blocks = |entries| ListBlocks::new(format_version, sync_marker(record), entries);
        let Some(head) = head else { return Ok(blocks(Vec::new())) };
        let location = head.manifest_list().ok_or(NotRebased::FormatVersion(1))?;
        if let Some(blocks) = self.0.get(&(location.clone(), format_version)) {
            return Ok(blocks);
        }
        let list = read(objects, record, &location).await?;
        // Lists of format version 1 may lack the counts that later versions require.
        if !list.entries.iter().all(|manifest| manifest.has_counts()) {
            return Err(NotRebased::Counts);
        }
        let blocks = blocks(list.entries);
        self.insert(location, format_version, blocks.clone());
        Ok(blocks)
    }

    /// Collects the metrics of the cache.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.0.usage().collect(into, "manifest_list", "Manifest lists of rebased appends");
    }
}

/// Returns the sync marker of the lists that the server writes for a table.
pub(crate) fn sync_marker(record: &TabularRecord) -> Uuid {
    record.id
}

/// Reads a manifest list of a table.
pub(super) async fn read(
    objects: &Objects,
    record: &TabularRecord,
    location: &str,
) -> Result<ManifestList, NotRebased> {
    // The server reads with its own credentials, so it reads only files at the locations of the
    // table.
    if !is_within(record, location) {
        return Err(NotRebased::Location);
    }
    let unreadable = |error: slateberg_objects::Error| {
        tracing::debug!(location, %error, "cannot read manifest list");
        NotRebased::Unreadable
    };
    let content = objects.read(record.warehouse, location).await.map_err(unreadable)?;
    if content.len() < INLINE_BYTES_MAX {
        return ManifestList::parse(location, &content).map_err(unreadable);
    }
    let name = location.to_owned();
    let parsing = tokio::task::spawn_blocking(move || ManifestList::parse(&name, &content));
    match parsing.await {
        Ok(parsed) => parsed.map_err(unreadable),
        Err(_) => Err(NotRebased::Unreadable),
    }
}

/// Whether a file is below a location of a table.
pub(crate) fn is_within(record: &TabularRecord, file: &str) -> bool {
    let Ok(file) = Location::parse(file) else { return false };
    let mut roots = locations_of(record).filter_map(|root| Location::parse(root).ok());
    roots.any(|root| file.is_within(&root))
}
