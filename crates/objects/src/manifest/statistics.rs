//! Statistics of columns in the files of a manifest.

use std::collections::BTreeSet;

use slateberg_model::scan::Side;

use super::columns::{Blobs, BlobsBuilder, Budget, Longs, LongsBuilder};

/// Columns whose statistics a scan needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededColumns {
    /// All columns.
    All,
    /// The columns with these field ids.
    Ids(BTreeSet<i32>),
}

impl NeededColumns {
    /// Whether all columns of `other` are included.
    pub fn include(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Ids(_), Self::All) => false,
            (Self::Ids(ids), Self::Ids(others)) => ids.is_superset(others),
        }
    }

    /// Returns the columns that `self` or `other` needs.
    #[must_use]
    pub fn union(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Ids(mut ids), Self::Ids(others)) => {
                ids.extend(others);
                Self::Ids(ids)
            }
            _ => Self::All,
        }
    }

    fn has(&self, field_id: i32) -> bool {
        match self {
            Self::All => true,
            Self::Ids(ids) => ids.contains(&field_id),
        }
    }
}

/// Kind of a number in the statistics of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Size,
    Values,
    Nulls,
    Nans,
}

/// Kind of a bound of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Lower,
    Upper,
}

/// Statistics of one column.
#[derive(Debug)]
pub(super) struct ColumnStatistics {
    field_id: i32,
    pub(super) sizes: Longs,
    pub(super) value_counts: Longs,
    pub(super) null_counts: Longs,
    pub(super) nan_counts: Longs,
    pub(super) lower_bounds: Blobs,
    pub(super) upper_bounds: Blobs,
    /// The smallest lower bound of each block of files, if the bounds are integers.
    pub(super) lower_extremes: Box<[i64]>,
    /// The greatest upper bound of each block of files, if the bounds are integers.
    pub(super) upper_extremes: Box<[i64]>,
}

/// Statistics of all needed columns, ordered by field id.
#[derive(Debug)]
pub(super) struct Statistics(Box<[ColumnStatistics]>);

impl Statistics {
    pub(super) fn column(&self, field_id: i32) -> Option<&ColumnStatistics> {
        let found = self.0.binary_search_by_key(&field_id, |column| column.field_id);
        found.ok().and_then(|at| self.0.get(at))
    }

    pub(super) fn bytes(&self) -> usize {
        let column = |column: &ColumnStatistics| {
            let longs =
                [&column.sizes, &column.value_counts, &column.null_counts, &column.nan_counts];
            size_of::<ColumnStatistics>()
                + longs.iter().map(|longs| longs.bytes()).sum::<usize>()
                + column.lower_bounds.bytes()
                + column.upper_bounds.bytes()
                + size_of_val(&*column.lower_extremes)
                + size_of_val(&*column.upper_extremes)
        };
        self.0.iter().map(column).sum()
    }
}

/// Builds [`ColumnStatistics`].
#[derive(Debug, Default)]
struct ColumnBuilder {
    field_id: i32,
    counts: [LongsBuilder; 4],
    bounds: [BlobsBuilder; 2],
}

/// Builds [`Statistics`].
#[derive(Debug)]
pub(super) struct StatisticsBuilder {
    needed: NeededColumns,
    /// Ordered by field id.
    columns: Vec<ColumnBuilder>,
    /// Position of the column that was set last. Most writers order columns by id in every entry,
    /// so the next column usually follows it.
    last: usize,
}

impl StatisticsBuilder {
    pub(super) fn new(needed: NeededColumns) -> Self {
        Self { needed, columns: Vec::new(), last: 0 }
    }

    pub(super) fn set_count(
        &mut self,
        row: usize,
        (count, field_id): (Count, i32),
        value: i64,
        budget: &mut Budget,
    ) -> Result<(), String> {
        match self.column(field_id, budget)? {
            Some(column) => column.counts[count as usize].set(row, value, budget),
            None => Ok(()),
        }
    }

    pub(super) fn set_bound(
        &mut self,
        row: usize,
        (bound, field_id): (Bound, i32),
        value: &[u8],
        budget: &mut Budget,
    ) -> Result<(), String> {
        match self.column(field_id, budget)? {
            Some(column) => column.bounds[bound as usize].set(row, value, budget),
            None => Ok(()),
        }
    }

    /// Returns a column. `None` if it is not needed.
    fn column(
        &mut self,
        field_id: i32,
        budget: &mut Budget,
    ) -> Result<Option<&mut ColumnBuilder>, String> {
        let is_at = |at: usize, columns: &[ColumnBuilder]| {
            columns.get(at).is_some_and(|column| column.field_id == field_id)
        };
        if is_at(self.last, &self.columns) {
            return Ok(self.columns.get_mut(self.last));
        }
        if is_at(self.last + 1, &self.columns) {
            self.last += 1;
            return Ok(self.columns.get_mut(self.last));
        }
        match self.columns.binary_search_by_key(&field_id, |column| column.field_id) {
            Ok(at) => self.last = at,
            Err(_) if !self.needed.has(field_id) => return Ok(None),
            Err(at) => {
                budget.take(size_of::<ColumnBuilder>())?;
                self.columns.insert(at, ColumnBuilder { field_id, ..ColumnBuilder::default() });
                self.last = at;
            }
        }
        Ok(self.columns.get_mut(self.last))
    }

    /// Removes the statistics from this row on.
    pub(super) fn truncate(&mut self, row: usize) {
        for column in &mut self.columns {
            column.counts.iter_mut().for_each(|counts| counts.truncate(row));
            column.bounds.iter_mut().for_each(|bounds| bounds.truncate(row));
        }
    }

    /// Returns the statistics of `rows` rows, and the columns that they include.
    pub(super) fn finish(
        self,
        rows: usize,
        budget: &mut Budget,
    ) -> Result<(Statistics, NeededColumns), String> {
        let column = |column: ColumnBuilder| {
            let [sizes, values, nulls, nans] = column.counts;
            let [lower, upper] = column.bounds;
            let (lower, upper) = (lower.finish(rows, budget)?, upper.finish(rows, budget)?);
            let extremes = |bounds: &Blobs, side| {
                bounds.of_equal_length().map_or_else(Box::default, |all| all.block_extremes(side))
            };
            Ok::<_, String>(ColumnStatistics {
                field_id: column.field_id,
                sizes: sizes.finish(rows, budget)?,
                value_counts: values.finish(rows, budget)?,
                null_counts: nulls.finish(rows, budget)?,
                nan_counts: nans.finish(rows, budget)?,
                lower_extremes: extremes(&lower, Side::Lower),
                upper_extremes: extremes(&upper, Side::Upper),
                lower_bounds: lower,
                upper_bounds: upper,
            })
        };
        let columns = self.columns.into_iter().map(column).collect::<Result<_, _>>()?;
        Ok((Statistics(columns), self.needed))
    }
}
