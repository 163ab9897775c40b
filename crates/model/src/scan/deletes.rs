//! [`DeleteIndex`]: which delete files apply to a data file ("Scan Planning" in the table
//! specification).

use std::collections::HashMap;
use std::sync::Arc;

use super::error::ScanError;
use super::predicate::{BoundColumn, LESS};
use super::spec::{BoundSpec, PartitionTuple};
use super::statistics::{FileStatistics, ValueRange, is_floating};
use crate::members::brief;
use crate::schema::Schema;
use crate::types::{NestedField, PrimitiveType};
use crate::value::Datum;

/// The id of the column of position delete files that contains paths of data files.
pub const DELETE_FILE_PATH_ID: i32 = 2_147_483_546;

/// The kind of a delete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteKind {
    /// Positions of rows in data files.
    Position,
    /// A deletion vector: positions of rows in one data file (v3).
    Vector,
    /// Rows with certain values in the columns with these ids.
    Equality(Vec<i32>),
}

/// The properties of a delete file that determine to which data files it applies, except its
/// statistics. They come from its manifest entry.
#[derive(Debug, Clone)]
pub struct DeleteFileHead<'a> {
    /// The kind.
    pub kind: DeleteKind,
    /// The partition spec of the manifest that lists the file.
    pub spec: &'a BoundSpec,
    /// Its partition.
    pub partition: &'a PartitionTuple,
    /// Its data sequence number.
    pub sequence_number: i64,
    /// The only data file to which it applies. `None`: unknown.
    pub referenced_data_file: Option<&'a str>,
}

/// The properties of a data file that determine which delete files apply to it, except its
/// statistics. They come from its manifest entry.
#[derive(Debug, Clone, Copy)]
pub struct DataFileHead<'a> {
    /// The location, exactly as in the manifest.
    pub path: &'a str,
    /// The id of the partition spec of the manifest that lists the file.
    pub spec_id: i32,
    /// Its partition.
    pub partition: &'a PartitionTuple,
    /// Its data sequence number.
    pub sequence_number: i64,
}

/// A delete file, with the properties that determine to which data files it applies.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    target: Target,
    spec_id: i32,
    partition: Arc<PartitionTuple>,
    sequence_number: i64,
}

/// The rows to which a delete file applies.
#[derive(Debug, Clone)]
enum Target {
    /// Rows of this data file, as a deletion vector.
    Vector(Box<str>),
    /// Rows of this data file.
    DataFile(Box<str>),
    /// Rows of the data files of the partition.
    Partition,
    /// Rows of the partition with values in these ranges.
    Keys(Vec<KeyRange>),
    /// Rows of the table with values in these ranges.
    GlobalKeys(Vec<KeyRange>),
}

/// The values of one column in an equality delete file.
#[derive(Debug, Clone)]
struct KeyRange {
    column: BoundColumn,
    is_required: bool,
    range: ValueRange,
}

impl DeleteFile {
    /// Creates a delete file from its manifest entry. `schema` contains the equality columns.
    pub fn new(
        head: DeleteFileHead<'_>,
        statistics: &impl FileStatistics,
        schema: &Schema,
    ) -> Result<Self, ScanError> {
        let DeleteFileHead { kind, spec, partition, sequence_number, referenced_data_file } = head;
        let target = match kind {
            DeleteKind::Vector => match referenced_data_file {
                Some(path) => Target::Vector(path.into()),
                None => {
                    return Err(ScanError::validation(
                        "Invalid deletion vector: it references no data file",
                    ));
                }
            },
            DeleteKind::Position => match referenced_data_file.or_else(|| only_path(statistics)) {
                Some(path) => Target::DataFile(path.into()),
                None => Target::Partition,
            },
            DeleteKind::Equality(ids) => {
                let keys = key_ranges(&ids, statistics, schema)?;
                if spec.is_unpartitioned() { Target::GlobalKeys(keys) } else { Target::Keys(keys) }
            }
        };
        Ok(Self { target, spec_id: spec.spec_id, partition: partition.into(), sequence_number })
    }
}

/// Returns the path of the data file to which a position delete file applies. `None` if it applies
/// to several data files, or if the statistics do not show the paths.
fn only_path(statistics: &impl FileStatistics) -> Option<&str> {
    let lower = statistics.lower_bound(DELETE_FILE_PATH_ID)?;
    let is_only = statistics.upper_bound(DELETE_FILE_PATH_ID) == Some(lower);
    std::str::from_utf8(lower).ok().filter(|_| is_only)
}

fn key_ranges(
    ids: &[i32],
    statistics: &impl FileStatistics,
    schema: &Schema,
) -> Result<Vec<KeyRange>, ScanError> {
    let index = schema.index()?;
    let range = |id: &i32| {
        // A column that was dropped has no known type, so its values do not restrict the rows.
        let found = index.field(*id)?;
        let primitive = found.field.field_type.as_primitive()?.clone();
        let mut fields = index.ancestors(*id).map(|parent| parent.field);
        let is_required = found.field.required && fields.all(|field: &NestedField| field.required);
        let is_nested = found.parent.is_some();
        let column = BoundColumn { field_id: *id, primitive: Some(primitive), is_nested };
        let range = ValueRange::of_column(statistics, &column, true);
        Some(KeyRange { column, is_required, range })
    };
    Ok(ids.iter().filter_map(range).collect())
}

impl KeyRange {
    /// Whether a data file may have a value that is also in the delete file.
    fn may_overlap(&self, statistics: &impl FileStatistics) -> bool {
        let data = ValueRange::of_column(statistics, &self.column, true);
        let deleted = &self.range;
        let no_null = |range: &ValueRange| range.no_null || self.is_required;
        if !no_null(&data) && !no_null(deleted) {
            return true;
        }
        if (data.all_null && no_null(deleted)) || (deleted.all_null && no_null(&data)) {
            return false;
        }
        if !data.no_nan && !deleted.no_nan && self.is_floating() {
            return true;
        }
        let is_below = |one: &Option<Datum>, other: &Option<Datum>| {
            one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one.compare(other) == LESS)
        };
        !is_below(&data.upper, &deleted.lower) && !is_below(&deleted.upper, &data.lower)
    }

    fn is_floating(&self) -> bool {
        self.column.primitive.as_ref().is_some_and(is_floating as fn(&PrimitiveType) -> bool)
    }
}

/// Delete files, sorted by sequence number.
#[derive(Debug, Default)]
struct Group(Vec<(i64, usize)>);

/// Groups by partition, for each spec id.
type GroupsByPartition = HashMap<i32, HashMap<Arc<PartitionTuple>, Group>>;

impl Group {
    /// Returns the positions of the delete files with this sequence number or a greater one.
    fn since(&self, sequence_number: i64) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|(number, _)| *number < sequence_number);
        self.0.iter().skip(first).map(|(_, position)| *position)
    }
}

/// The delete files of a scan, by the data files to which they apply.
#[derive(Debug, Default)]
pub struct DeleteIndex {
    files: Vec<DeleteFile>,
    vectors: HashMap<Box<str>, usize>,
    by_data_file: HashMap<Box<str>, Group>,
    by_partition: GroupsByPartition,
    equality_by_partition: GroupsByPartition,
    global_equality: Group,
}

impl DeleteIndex {
    /// Builds the index. Errors if two deletion vectors apply to one data file.
    pub fn build(files: Vec<DeleteFile>) -> Result<Self, ScanError> {
        let mut index = Self::default();
        // Each group is filled in the order of sequence numbers.
        let mut order: Vec<_> = (0..files.len()).collect();
        order.sort_by_key(|position| files.get(*position).map(|file| file.sequence_number));
        for position in order {
            if let Some(file) = files.get(position) {
                index.add(file, position)?;
            }
        }
        index.files = files;
        Ok(index)
    }

    fn add(&mut self, file: &DeleteFile, position: usize) -> Result<(), ScanError> {
        let partition = || Arc::clone(&file.partition);
        let group = match &file.target {
            Target::Vector(path) => {
                return match self.vectors.insert(path.clone(), position) {
                    None => Ok(()),
                    Some(_) => Err(ScanError::validation(format!(
                        "Can't index multiple DVs for {}",
                        brief(path)
                    ))),
                };
            }
            Target::DataFile(path) => self.by_data_file.entry(path.clone()).or_default(),
            Target::Partition => {
                self.by_partition.entry(file.spec_id).or_default().entry(partition()).or_default()
            }
            Target::Keys(_) => {
                let groups = self.equality_by_partition.entry(file.spec_id).or_default();
                groups.entry(partition()).or_default()
            }
            Target::GlobalKeys(_) => &mut self.global_equality,
        };
        group.0.push((file.sequence_number, position));
        Ok(())
    }

    /// Whether there are no delete files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the positions of the delete files that apply to a data file, in ascending order.
    pub fn for_data_file(
        &self,
        file: &DataFileHead<'_>,
        statistics: &impl FileStatistics,
    ) -> Vec<usize> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<_> = self.equality_deletes(file, statistics).collect();
        match self.vector(file) {
            // A deletion vector includes the positions of older delete files.
            Some(vector) => found.push(vector),
            None => found.extend(self.position_deletes(file)),
        }
        found.sort_unstable();
        found
    }

    fn vector(&self, file: &DataFileHead<'_>) -> Option<usize> {
        let position = *self.vectors.get(file.path)?;
        let vector = self.files.get(position)?;
        let applies = vector.sequence_number >= file.sequence_number
            && vector.spec_id == file.spec_id
            && *vector.partition == *file.partition;
        applies.then_some(position)
    }

    /// Returns the position deletes of a data file. They apply to data files of their own commit,
    /// too.
    fn position_deletes(&self, file: &DataFileHead<'_>) -> impl Iterator<Item = usize> {
        let groups = self.by_data_file.get(file.path).into_iter();
        let groups = groups.chain(group_of(&self.by_partition, file));
        let sequence_number = file.sequence_number;
        groups.flat_map(move |group| group.since(sequence_number))
    }

    /// Returns the equality deletes of a data file. They apply only to data files of earlier
    /// commits.
    fn equality_deletes(
        &self,
        file: &DataFileHead<'_>,
        statistics: &impl FileStatistics,
    ) -> impl Iterator<Item = usize> {
        let groups = std::iter::once(&self.global_equality);
        let groups = groups.chain(group_of(&self.equality_by_partition, file));
        let later = file.sequence_number.saturating_add(1);
        groups
            .flat_map(move |group| group.since(later))
            .filter(|position| self.may_delete(*position, statistics))
    }

    fn may_delete(&self, position: usize, statistics: &impl FileStatistics) -> bool {
        match self.files.get(position).map(|file| &file.target) {
            Some(Target::Keys(keys) | Target::GlobalKeys(keys)) => {
                keys.iter().all(|key| key.may_overlap(statistics))
            }
            _ => true,
        }
    }
}

fn group_of<'a>(groups: &'a GroupsByPartition, file: &DataFileHead<'_>) -> Option<&'a Group> {
    groups.get(&file.spec_id)?.get(file.partition)
}
