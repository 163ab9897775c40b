//! Selects the manifests to merge, and writes the merged manifests.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use futures::StreamExt;
use uuid::Uuid;

use super::current::{CurrentManifests, RewrittenManifests, rejected, unreadable};
use crate::jobs::left_behind::NewManifests;
use crate::tabular::Tabulars;
use crate::{Error, Result};
use slateberg_model::manifest_file::{FieldSummary, ManifestFile};
use slateberg_model::scan::BoundSpec;
use slateberg_model::table::TableMetadata;
use slateberg_objects::Objects;
use slateberg_objects::manifest::{Inherited, ManifestMerge, MergedCounts};
use slateberg_objects::manifest_list;
use slateberg_objects::metadata_file;

/// Size of a merged manifest, in bytes.
pub(crate) const TARGET_PROPERTY: &str = "commit.manifest.target-size-bytes";
/// The default of [`TARGET_PROPERTY`].
const TARGET_BYTES: i64 = 8 << 20;
/// Largest value of [`TARGET_PROPERTY`] that a rewrite uses, because it holds a merged manifest in
/// memory.
const TARGET_BYTES_MAX: i64 = 16 << 20;
/// Maximum number of manifests that one rewrite replaces. The next rewrite continues.
const REPLACED_MAX: usize = 10_000;
/// Number of manifests that are read concurrently.
const READS_PARALLEL_MAX: usize = 8;
/// Maximum number of merged manifests that are in memory at the same time. Each of them contains
/// the manifests of one partition spec and Avro schema.
const OPEN_MAX: usize = 4;

/// The manifests that a rewrite merges.
pub(super) struct ManifestSelection {
    target_bytes: i64,
    /// Positions in the list, in order.
    positions: Vec<usize>,
}

/// New manifests, which exist already.
pub(super) struct MergedManifests {
    pub(super) new: Vec<MergedManifest>,
    /// Paths of the manifests that the new ones replace.
    pub(super) replaced: HashSet<String>,
    /// The records of the new manifests. Until they are dropped, no job deletes these manifests.
    pub(super) announced: Vec<NewManifests>,
}

/// A new manifest.
pub(super) struct MergedManifest {
    pub(super) path: String,
    pub(super) length: i64,
    pub(super) spec_id: i32,
    pub(super) counts: MergedCounts,
    pub(super) partitions: Option<Vec<FieldSummary>>,
}

/// A merged manifest that is not complete.
struct OpenMerge {
    spec_id: i32,
    merge: ManifestMerge,
    inputs: Vec<String>,
    partitions: Option<Vec<FieldSummary>>,
}

impl ManifestSelection {
    /// Selects the data manifests that are smaller than half of the target.
    pub(super) fn of(table: &TableMetadata, manifests: &[ManifestFile]) -> Self {
        let target = table.properties.get(TARGET_PROPERTY).and_then(|text| text.parse().ok());
        let target = target.filter(|bytes| *bytes > 0).unwrap_or(TARGET_BYTES);
        let target_bytes = target.min(TARGET_BYTES_MAX);
        let is_small = |it: &ManifestFile| it.is_data() && it.length < target_bytes / 2;
        let mut of_spec: BTreeMap<i32, usize> = BTreeMap::new();
        for manifest in manifests.iter().filter(|it| is_small(it)) {
            *of_spec.entry(manifest.spec_id).or_default() += 1;
        }
        let is_alone = |it: &ManifestFile| of_spec.get(&it.spec_id).is_none_or(|count| *count < 2);
        let positions = manifests.iter().enumerate();
        let positions = positions.filter(|(_, it)| is_small(it) && !is_alone(it));
        let positions = positions.map(|(position, _)| position).take(REPLACED_MAX).collect();
        Self { target_bytes, positions }
    }

    /// Returns the selected manifests, in order.
    fn manifests(&self, all: &[ManifestFile]) -> Vec<ManifestFile> {
        self.positions.iter().filter_map(|at| all.get(*at)).cloned().collect()
    }

    /// Returns the expected result, according to the sizes in the manifest list.
    pub(super) fn expected(&self, manifests: &[ManifestFile]) -> RewrittenManifests {
        let mut bytes: BTreeMap<i32, i64> = BTreeMap::new();
        let mut entries: i64 = 0;
        for manifest in self.positions.iter().filter_map(|at| manifests.get(*at)) {
            let sum = bytes.entry(manifest.spec_id).or_default();
            *sum = sum.saturating_add(manifest.length.max(1));
            entries = entries.saturating_add(live_files(manifest).unwrap_or(0));
        }
        let created = bytes.values().map(|sum| sum.unsigned_abs());
        let created = created.map(|sum| sum.div_ceil(self.target_bytes.unsigned_abs()));
        RewrittenManifests {
            snapshot_id: None,
            created: usize::try_from(created.sum::<u64>()).unwrap_or(usize::MAX),
            kept: manifests.len() - self.positions.len(),
            replaced: self.positions.len(),
            entries,
        }
    }
}

/// Reads a manifest. Returns it with the maximum size after decompression.
async fn read_manifest(
    objects: Objects,
    warehouse: Uuid,
    manifest: ManifestFile,
) -> Result<(ManifestFile, Bytes, u64)> {
    let content = objects.read(warehouse, &manifest.path).await.map_err(unreadable)?;
    let bytes_max = content.bytes_max();
    // The manifests in memory are bounded by their lengths in the list, so they do not have to
    // reserve memory. If they did, they could wait for each other.
    let (bytes, _room) = content.into_parts();
    if i64::try_from(bytes.len()) != Ok(manifest.length) {
        let path = &manifest.path;
        return Err(rejected(&format!("the manifest list has the wrong length of {path}")));
    }
    Ok((manifest, bytes, bytes_max))
}

fn live_files(manifest: &ManifestFile) -> Option<i64> {
    Some(i64::from(manifest.added_files_count?) + i64::from(manifest.existing_files_count?))
}

fn live_rows(manifest: &ManifestFile) -> Option<i64> {
    manifest.added_rows_count?.checked_add(manifest.existing_rows_count?)
}

impl OpenMerge {
    /// Adds a manifest. Blocks the thread for as long as the manifest is copied.
    fn add(
        mut self,
        manifest: &ManifestFile,
        file: (&[u8], u64),
        spec: Option<&BoundSpec>,
    ) -> Result<Self> {
        let added = self.merge.add(&manifest.path, file, Inherited::of(manifest));
        let added = added.map_err(unreadable)?;
        let differs = |stated: Option<i64>, found| stated.is_some_and(|it| it != found);
        if differs(live_files(manifest), added.files) || differs(live_rows(manifest), added.rows) {
            let path = &manifest.path;
            return Err(rejected(&format!("the manifest list has wrong counts of {path}")));
        }
        let before = self.partitions.take().filter(|_| !self.inputs.is_empty());
        self.partitions = match before {
            Some(before) => merged_partitions(&before, manifest.partitions.as_deref(), spec),
            None if self.inputs.is_empty() => manifest.partitions.clone(),
            None => None,
        };
        self.inputs.push(manifest.path.clone());
        Ok(self)
    }
}

/// Returns the summaries of the partitions in both manifests. `None` if they cannot be compared.
fn merged_partitions(
    one: &[FieldSummary],
    other: Option<&[FieldSummary]>,
    spec: Option<&BoundSpec>,
) -> Option<Vec<FieldSummary>> {
    let other = other.filter(|other| other.len() == one.len())?;
    let pairs = one.iter().zip(other).enumerate();
    let merge = |(position, (one, other)): (usize, (&FieldSummary, &FieldSummary))| {
        let field = spec.and_then(|spec| spec.fields.get(position));
        one.merged(other, field.and_then(|field| field.result_type.as_ref()))
    };
    pairs.map(merge).collect()
}

impl Tabulars {
    /// Writes the files of the selected manifests to new manifests. A job deletes the new manifests
    /// unless a commit uses them.
    pub(super) async fn merge_manifests(
        &self,
        current: &CurrentManifests<'_>,
        selection: ManifestSelection,
    ) -> Result<MergedManifests> {
        let (table, warehouse) = (&current.head.metadata, current.head.record.warehouse);
        let schema = table.current_schema()?;
        let specs = BoundSpec::all(table, schema);
        let objects = self.core.objects();
        let reads = selection.manifests(&current.manifests).into_iter();
        let reads = reads.map(|manifest| read_manifest(objects.clone(), warehouse, manifest));
        let mut reads = futures::stream::iter(reads).buffered(READS_PARALLEL_MAX);
        let mut merged =
            MergedManifests { new: Vec::new(), replaced: HashSet::new(), announced: Vec::new() };
        let mut open: Vec<OpenMerge> = Vec::new();
        while let Some(read) = reads.next().await {
            let (manifest, bytes, bytes_max) = read?;
            let file = (&bytes, bytes_max);
            let Some(merge) = self.merge_for(&mut open, &manifest, file, table.format_version)?
            else {
                continue;
            };
            let spec = specs.get(&manifest.spec_id).cloned();
            let adding = move || merge.add(&manifest, (&bytes, bytes_max), spec.as_ref());
            let merge = tokio::task::spawn_blocking(adding).await.map_err(Error::internal)??;
            if i64::try_from(merge.merge.len()).is_ok_and(|bytes| bytes < selection.target_bytes) {
                open.push(merge);
            } else {
                self.write_merged(current, merge, &mut merged).await?;
            }
            if open.len() > OPEN_MAX {
                let oldest = open.remove(0);
                self.write_merged(current, oldest, &mut merged).await?;
            }
        }
        for merge in open {
            self.write_merged(current, merge, &mut merged).await?;
        }
        Ok(merged)
    }

    /// Takes the open merge for a manifest, or begins one. Returns `None` if the manifest cannot be
    /// merged.
    fn merge_for(
        &self,
        open: &mut Vec<OpenMerge>,
        manifest: &ManifestFile,
        (bytes, bytes_max): (&Bytes, u64),
        format_version: u8,
    ) -> Result<Option<OpenMerge>> {
        for (position, it) in open.iter().enumerate() {
            let accepts = it.spec_id == manifest.spec_id
                && it.merge.accepts(&manifest.path, bytes).map_err(unreadable)?;
            if accepts {
                return Ok(Some(open.remove(position)));
            }
        }
        let (path, sync) = (&manifest.path, self.core.ids().random());
        let begun = ManifestMerge::begin(path, (bytes, bytes_max), format_version, sync);
        Ok(begun.map_err(unreadable)?.map(|merge| OpenMerge {
            spec_id: manifest.spec_id,
            merge,
            inputs: Vec::new(),
            partitions: None,
        }))
    }

    /// Writes a merged manifest, unless it would replace only one manifest.
    async fn write_merged(
        &self,
        current: &CurrentManifests<'_>,
        complete: OpenMerge,
        merged: &mut MergedManifests,
    ) -> Result<()> {
        let OpenMerge { spec_id, merge, inputs, partitions } = complete;
        if inputs.len() < 2 || merge.is_empty() {
            return Ok(());
        }
        let (record, table) = (&current.head.record, &current.head.metadata);
        let directory = metadata_file::directory(&table.location, &table.properties);
        let (number, file_id) = (merged.new.len(), self.core.ids().random());
        let path = format!("{directory}/{file_id}-m{number}.avro");
        let (content, counts) = merge.finish();
        merged.announced.push(self.jobs.announce_manifests(record, vec![path.clone()]).await?);
        manifest_list::create(&self.core.objects(), record.warehouse, &path, &content).await?;
        let length = i64::try_from(content.len()).unwrap_or(i64::MAX);
        merged.new.push(MergedManifest { path, length, spec_id, counts, partitions });
        merged.replaced.extend(inputs);
        Ok(())
    }
}
