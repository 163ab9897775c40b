//! Reading of manifests.

use super::super::avro::program::{self, FieldInfo, Sink, Slot, Wanted, unexpected};
use super::super::content::Content;
use super::super::error::Error;
use super::columns::{BlobsBuilder, Budget, ListsBuilder, LongsBuilder};
use super::field_ids as id;
use super::field_ids::FILE_FIELDS;
use super::partition::{PartitionFieldInfo, PartitionValue, Tuples};
use super::statistics::{Bound, Count, NeededColumns, StatisticsBuilder};
use super::{Inherited, Manifest};

/// Memory that an entry takes while it is read, in bytes, in addition to its columns.
const ENTRY_BYTES: usize = 32;
/// Slot of the first field of a partition tuple. All other fields have their field ids as slots,
/// which are smaller.
const PARTITION_SLOT: Slot = 1000;
/// Maximum number of fields of a partition tuple.
const PARTITION_FIELDS_MAX: usize = 1000;

/// Status of an entry whose file was deleted.
const DELETED: i64 = 2;

impl Manifest {
    /// Reads a manifest that takes at most `bytes_max` bytes, decompressed and in memory.
    ///
    /// # Errors
    /// Fails if the file is not a manifest, or takes more memory.
    pub fn read(
        location: &str,
        file: &Content,
        bytes_max: u64,
        inherited: Inherited,
        needed: NeededColumns,
    ) -> Result<Self, Error> {
        read(file, bytes_max, inherited, needed)
            .map_err(|reason| Error::unreadable(location, reason))
    }
}

/// Reads a manifest that takes at most `bytes_max` bytes, decompressed and as columns.
pub(super) fn read(
    file: &[u8],
    bytes_max: u64,
    inherited: Inherited,
    needed: NeededColumns,
) -> Result<Manifest, String> {
    let budget = Budget { bytes_left: bytes_max, bytes_max };
    let mut reader = Reader::new(inherited, needed, budget);
    let mut fields = Vec::new();
    program::read(file, bytes_max, |path| wanted(path, &mut fields), &mut reader)?;
    reader.finish(fields)
}

/// Decides whether a field is read, and collects the fields of the partition tuple.
fn wanted(path: &[FieldInfo], partition: &mut Vec<PartitionFieldInfo>) -> Wanted {
    let slot = |id: i32| Slot::try_from(id).map_or(Wanted::Skip, Wanted::Value);
    match path {
        [field] => match field.id {
            id::STATUS | id::SNAPSHOT_ID | id::SEQUENCE_NUMBER => slot(field.id),
            id::DATA_FILE => Wanted::Enter,
            _ => Wanted::Skip,
        },
        [file, field] if file.id == id::DATA_FILE => match field.id {
            id::PARTITION => Wanted::Enter,
            id if FILE_FIELDS.contains(&id) => slot(id),
            _ => Wanted::Skip,
        },
        [_, tuple, field] if tuple.id == id::PARTITION => {
            if partition.len() >= PARTITION_FIELDS_MAX {
                return Wanted::Skip;
            }
            let slot = Slot::try_from(partition.len()).map_or(Slot::MAX, |at| PARTITION_SLOT + at);
            partition.push(PartitionFieldInfo { field_id: field.id, is_date: field.is_date });
            Wanted::Value(slot)
        }
        _ => Wanted::Skip,
    }
}

/// Values of the entry that is being read.
#[derive(Default)]
struct Entry {
    status: Option<i64>,
    snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    has_path: bool,
    format: Option<i64>,
    content: Option<i64>,
    record_count: Option<i64>,
    size: Option<i64>,
    sort_order_id: Option<i64>,
    first_row_id: Option<i64>,
    content_offset: Option<i64>,
    content_size: Option<i64>,
}

/// Builds a manifest from its entries.
struct Reader {
    inherited: Inherited,
    budget: Budget,
    /// Number of rows in earlier entries that got their row ids from the manifest's first row id.
    assigned_rows: i64,
    rows: usize,
    entry: Entry,
    tuple: Vec<PartitionValue>,
    /// Paths of all rows, one after the other.
    paths: BlobsBuilder,
    formats: Vec<Box<str>>,
    tuples: Tuples,
    longs: [LongsBuilder; LONGS],
    key_metadata: BlobsBuilder,
    referenced_data_files: BlobsBuilder,
    split_offsets: ListsBuilder,
    equality_ids: ListsBuilder,
    statistics: StatisticsBuilder,
}

/// Number of columns with numbers.
const LONGS: usize = 12;

impl Reader {
    fn new(inherited: Inherited, needed: NeededColumns, budget: Budget) -> Self {
        Self {
            inherited,
            budget,
            assigned_rows: 0,
            rows: 0,
            entry: Entry::default(),
            tuple: Vec::new(),
            paths: BlobsBuilder::default(),
            formats: Vec::new(),
            tuples: Tuples::default(),
            longs: Default::default(),
            key_metadata: BlobsBuilder::default(),
            referenced_data_files: BlobsBuilder::default(),
            split_offsets: ListsBuilder::default(),
            equality_ids: ListsBuilder::default(),
            statistics: StatisticsBuilder::new(needed),
        }
    }

    /// Whether the file of the entry was deleted. The values of such an entry are ignored.
    fn is_deleted(&self) -> bool {
        self.entry.status == Some(DELETED)
    }

    fn format(&mut self, name: &[u8]) -> Result<i64, String> {
        let name = std::str::from_utf8(name).map_err(|_| "has a format that is not UTF-8")?;
        let known = self.formats.iter().position(|format| format.eq_ignore_ascii_case(name));
        let at = match known {
            Some(at) => at,
            None => {
                self.budget.take(size_of::<Box<str>>() + name.len())?;
                self.formats.push(name.to_ascii_lowercase().into());
                self.formats.len() - 1
            }
        };
        Ok(i64::try_from(at).unwrap_or_default())
    }

    fn set_partition(&mut self, slot: Slot, value: PartitionValue) {
        let at = usize::from(slot - PARTITION_SLOT);
        if self.tuple.len() <= at {
            self.tuple.resize(at + 1, PartitionValue::Null);
        }
        self.tuple[at] = value;
    }

    /// Returns the id of the first row of a live file.
    fn first_row_id(&mut self, entry: &Entry) -> Result<Option<i64>, String> {
        let (None, Some(first)) = (entry.first_row_id, self.inherited.first_row_id) else {
            return Ok(entry.first_row_id);
        };
        let id = first.checked_add(self.assigned_rows);
        let rows = entry.record_count.unwrap_or_default();
        let assigned = self.assigned_rows.checked_add(rows).filter(|_| rows >= 0);
        self.assigned_rows = assigned.ok_or("has too many rows")?;
        Ok(Some(id.ok_or("has too many rows")?))
    }

    fn sequence_number(&self, entry: &Entry) -> Result<i64, String> {
        let inherited = self.inherited.sequence_number;
        match entry.sequence_number {
            Some(number) => Ok(number),
            None if inherited == 0 || entry.status == Some(1) => Ok(inherited),
            None => Err("has an existing entry without a sequence number".to_owned()),
        }
    }

    /// Adds the entry of a live file to the columns.
    fn end_file(&mut self, entry: &Entry) -> Result<(), String> {
        let missing = |name: &str| format!("has an entry without {name}");
        let status = entry.status.ok_or_else(|| missing("status"))?;
        if !entry.has_path {
            return Err(missing("file_path"));
        }
        let content = entry.content.unwrap_or(0);
        if !(0..=1).contains(&status) || !(0..=2).contains(&content) {
            return Err("has an entry with an unknown status or content".to_owned());
        }
        let (row, budget) = (self.rows, &mut self.budget);
        let partition = self.tuples.position(&self.tuple, budget)?;
        budget.take(ENTRY_BYTES)?;
        self.split_offsets.end_row(row, budget)?;
        self.equality_ids.end_row(row, budget)?;
        let values = [
            Some(status),
            Some(content),
            Some(entry.format.ok_or_else(|| missing("file_format"))?),
            Some(partition),
            Some(entry.snapshot_id.unwrap_or(self.inherited.snapshot_id)),
            Some(self.sequence_number(entry)?),
            Some(entry.record_count.ok_or_else(|| missing("record_count"))?),
            Some(entry.size.ok_or_else(|| missing("file_size_in_bytes"))?),
            entry.sort_order_id,
            self.first_row_id(entry)?,
            entry.content_offset,
            entry.content_size,
        ];
        for (column, value) in self.longs.iter_mut().zip(values) {
            column.put(row, value, &mut self.budget)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Removes the values of an entry whose file was deleted.
    fn discard_entry(&mut self) {
        let row = self.rows;
        for blobs in [&mut self.paths, &mut self.key_metadata, &mut self.referenced_data_files] {
            blobs.truncate(row);
        }
        self.split_offsets.discard_row();
        self.equality_ids.discard_row();
        self.statistics.truncate(row);
    }

    fn finish(self, fields: Vec<PartitionFieldInfo>) -> Result<Manifest, String> {
        let (rows, mut budget) = (self.rows, self.budget);
        let mut longs = Vec::with_capacity(LONGS);
        for column in self.longs {
            longs.push(column.finish(rows, &mut budget)?);
        }
        let longs: [_; LONGS] = longs.try_into().map_err(|_| "has too few columns")?;
        let [
            added,
            content,
            format,
            partition,
            snapshot_ids,
            sequence_numbers,
            record_counts,
            sizes,
            sort_order_ids,
            first_row_ids,
            content_offsets,
            content_sizes,
        ] = longs;
        let (path_prefix, paths) = self.paths.finish_with_prefix(rows, &mut budget)?;
        let (statistics, needed) = self.statistics.finish(rows, &mut budget)?;
        Ok(Manifest {
            rows,
            needed,
            path_prefix,
            paths,
            added,
            content,
            formats: self.formats.into(),
            format,
            partition_fields: fields.into(),
            partitions: self.tuples.finish(),
            partition,
            snapshot_ids,
            sequence_numbers,
            record_counts,
            sizes,
            sort_order_ids,
            first_row_ids,
            content_offsets,
            content_sizes,
            key_metadata: self.key_metadata.finish(rows, &mut budget)?,
            referenced_data_files: self.referenced_data_files.finish(rows, &mut budget)?,
            split_offsets: self.split_offsets.finish(&mut budget)?,
            equality_ids: self.equality_ids.finish(&mut budget)?,
            statistics,
        })
    }
}

impl Sink for Reader {
    fn number(&mut self, slot: Slot, value: i64) -> Result<(), String> {
        if slot >= PARTITION_SLOT {
            self.set_partition(slot, PartitionValue::Number(value));
            return Ok(());
        }
        let target = match i32::from(slot) {
            id::STATUS => &mut self.entry.status,
            id::SNAPSHOT_ID => &mut self.entry.snapshot_id,
            id::SEQUENCE_NUMBER => &mut self.entry.sequence_number,
            id::RECORD_COUNT => &mut self.entry.record_count,
            id::SIZE => &mut self.entry.size,
            id::CONTENT => &mut self.entry.content,
            id::SORT_ORDER_ID => &mut self.entry.sort_order_id,
            id::FIRST_ROW_ID => &mut self.entry.first_row_id,
            id::CONTENT_OFFSET => &mut self.entry.content_offset,
            id::CONTENT_SIZE => &mut self.entry.content_size,
            _ => return Err(unexpected(slot)),
        };
        *target = Some(value);
        Ok(())
    }

    fn text(&mut self, slot: Slot, value: &[u8]) -> Result<(), String> {
        if slot >= PARTITION_SLOT {
            self.set_partition(slot, PartitionValue::Bytes(value.into()));
            return Ok(());
        }
        let (row, budget) = (self.rows, &mut self.budget);
        match i32::from(slot) {
            id::PATH => {
                std::str::from_utf8(value).map_err(|_| "has a path that is not UTF-8")?;
                self.entry.has_path = true;
                self.paths.set(row, value, budget)
            }
            id::FORMAT => {
                self.entry.format = Some(self.format(value)?);
                Ok(())
            }
            id::KEY_METADATA => self.key_metadata.set(row, value, budget),
            id::REFERENCED_DATA_FILE => {
                std::str::from_utf8(value).map_err(|_| "has a path that is not UTF-8")?;
                self.referenced_data_files.set(row, value, budget)
            }
            _ => Err(unexpected(slot)),
        }
    }

    fn item(&mut self, slot: Slot, value: i64) -> Result<(), String> {
        match i32::from(slot) {
            id::SPLIT_OFFSETS => self.split_offsets.push(value, &mut self.budget),
            id::EQUALITY_IDS => self.equality_ids.push(value, &mut self.budget),
            _ => Err(unexpected(slot)),
        }
    }

    fn number_of(&mut self, slot: Slot, key: i32, value: i64) -> Result<(), String> {
        let count = match i32::from(slot) {
            id::COLUMN_SIZES => Count::Size,
            id::VALUE_COUNTS => Count::Values,
            id::NULL_COUNTS => Count::Nulls,
            id::NAN_COUNTS => Count::Nans,
            _ => return Err(unexpected(slot)),
        };
        if self.is_deleted() {
            return Ok(());
        }
        self.statistics.set_count(self.rows, (count, key), value, &mut self.budget)
    }

    fn text_of(&mut self, slot: Slot, key: i32, value: &[u8]) -> Result<(), String> {
        let bound = match i32::from(slot) {
            id::LOWER_BOUNDS => Bound::Lower,
            id::UPPER_BOUNDS => Bound::Upper,
            _ => return Err(unexpected(slot)),
        };
        if self.is_deleted() {
            return Ok(());
        }
        self.statistics.set_bound(self.rows, (bound, key), value, &mut self.budget)
    }

    fn end_entry(&mut self, _encoded: &[u8]) -> Result<(), String> {
        let entry = std::mem::take(&mut self.entry);
        if entry.status == Some(DELETED) {
            self.discard_entry();
        } else {
            self.end_file(&entry)?;
        }
        self.tuple.clear();
        Ok(())
    }
}
