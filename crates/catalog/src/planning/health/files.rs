//! [`FileCounts`]: counts and sizes of the files of a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use slateberg_model::scan::FileStatistics;
use slateberg_objects::manifest::{FileContent, Manifest, ManifestEntry};

/// The target size of data files, in bytes.
const TARGET_PROPERTY: &str = "write.target-file-size-bytes";
/// The default of [`TARGET_PROPERTY`].
const TARGET_BYTES: u64 = 512 << 20;
/// Number of small files from which Spark's `rewrite_data_files` compacts a partition.
const INPUT_FILES_MIN: u64 = 5;

/// Data files of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataFileCounts {
    /// Number of files.
    pub files: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of rows. Includes deleted rows.
    pub rows: u64,
    /// Number of partitions with files.
    pub partitions: u64,
    /// Target size of a file, in bytes.
    pub target_bytes: u64,
    /// Number of files that are smaller than 75 % of the target.
    pub small_files: u64,
    /// Size of these files, in bytes.
    pub small_bytes: u64,
    /// Number of small files that a compaction would replace.
    pub compactable_files: u64,
    /// Approximate number of files with which the compaction would replace them.
    pub compacted_files: u64,
}

/// Delete files of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteFileCounts {
    /// Number of files with deletions by position.
    pub position_files: u64,
    /// Number of files with deletions by value.
    pub equality_files: u64,
    /// Number of deletion vectors.
    pub vectors: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of deletions by position, in files and vectors.
    pub deleted_rows: u64,
}

/// Counts of the files that were read so far.
pub(crate) struct FileCounts {
    data: DataFileCounts,
    pub(crate) deletes: DeleteFileCounts,
    /// The small files of each partition, by the hash of its spec and values.
    partitions: HashMap<u64, SmallFiles>,
    hasher: RandomState,
}

/// The small files of a partition.
#[derive(Debug, Clone, Copy, Default)]
struct SmallFiles {
    files: u32,
    bytes: u64,
}

impl FileCounts {
    pub(crate) fn new(properties: &BTreeMap<String, String>) -> Self {
        let target = properties.get(TARGET_PROPERTY).and_then(|text| text.parse().ok());
        let target_bytes = target.filter(|bytes| *bytes > 0).unwrap_or(TARGET_BYTES);
        Self {
            data: DataFileCounts { target_bytes, ..DataFileCounts::default() },
            deletes: DeleteFileCounts::default(),
            partitions: HashMap::new(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the number of files that were counted.
    pub(crate) fn files(&self) -> u64 {
        let DeleteFileCounts { position_files, equality_files, vectors, .. } = self.deletes;
        self.data.files + position_files + equality_files + vectors
    }

    /// Counts the live files of a manifest.
    pub(crate) fn add(&mut self, manifest: &Manifest, spec_id: i32) {
        let partitions = manifest.partitions().iter();
        let keys: Vec<u64> =
            partitions.map(|tuple| self.hasher.hash_one((spec_id, tuple))).collect();
        for row in 0..manifest.len() {
            let file = manifest.file(row);
            match file.content() {
                FileContent::Data => {
                    let key = keys.get(file.partition()).copied().unwrap_or_default();
                    self.add_data(key, positive(file.size()), positive(file.record_count()));
                }
                content => self.add_deletes(content, file),
            }
        }
    }

    fn add_data(&mut self, partition: u64, bytes: u64, rows: u64) {
        let (data, small) = (&mut self.data, self.partitions.entry(partition).or_default());
        data.files += 1;
        data.bytes = data.bytes.saturating_add(bytes);
        data.rows = data.rows.saturating_add(rows);
        if bytes < data.target_bytes / 4 * 3 {
            data.small_files += 1;
            data.small_bytes = data.small_bytes.saturating_add(bytes);
            small.files += 1;
            small.bytes = small.bytes.saturating_add(bytes);
        }
    }

    fn add_deletes(&mut self, content: FileContent, file: ManifestEntry<'_>) {
        let deletes = &mut self.deletes;
        // Several vectors can be in one file.
        let vector = file.content_offset().and(file.content_size());
        let is_vector = vector.is_some();
        let bytes = positive(vector.unwrap_or_else(|| file.size()));
        deletes.bytes = deletes.bytes.saturating_add(bytes);
        match content {
            FileContent::EqualityDeletes => deletes.equality_files += 1,
            FileContent::Data => {}
            FileContent::PositionDeletes => {
                let rows = positive(file.record_count());
                deletes.deleted_rows = deletes.deleted_rows.saturating_add(rows);
                if is_vector {
                    deletes.vectors += 1;
                } else {
                    deletes.position_files += 1;
                }
            }
        }
    }

    /// Returns the counts of data files.
    pub(crate) fn data(&self) -> DataFileCounts {
        let mut data = self.data;
        data.partitions = self.partitions.len() as u64;
        for small in self.partitions.values() {
            let files = u64::from(small.files);
            // The rules of Spark's `rewrite_data_files`, which compacts each partition separately.
            let is_enough =
                files >= INPUT_FILES_MIN || files > 1 && small.bytes > data.target_bytes;
            if is_enough {
                data.compactable_files += files;
                data.compacted_files += small.bytes.div_ceil(data.target_bytes).max(1);
            }
        }
        data
    }
}

/// Returns a size or count. Writers may record negative ones.
fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_compactable_only_if_their_partition_has_enough() {
        let properties = [(TARGET_PROPERTY.to_owned(), "100".to_owned())].into();
        let mut counts = FileCounts::new(&properties);
        for (partition, bytes) in [(1, 10), (1, 10), (1, 75), (2, 74), (2, 74), (3, 74)] {
            counts.add_data(partition, bytes, 1);
        }
        for _ in 0..5 {
            counts.add_data(4, 10, 1);
        }
        let data = counts.data();
        assert_eq!((data.files, data.partitions, data.bytes), (11, 4, 367));
        // The third file of the first partition is not small.
        assert_eq!((data.small_files, data.small_bytes), (10, 292));
        // The second partition exceeds the target, and the fourth one has five files.
        assert_eq!((data.compactable_files, data.compacted_files), (7, 3));
    }

    #[test]
    fn invalid_target_size_counts_as_the_default() {
        for text in ["0", "-1", "a"] {
            let properties = [(TARGET_PROPERTY.to_owned(), text.to_owned())].into();
            assert_eq!(FileCounts::new(&properties).data().target_bytes, TARGET_BYTES);
        }
    }
}
