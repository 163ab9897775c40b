//! The fast evaluation of a filter on all files of a manifest. It only compares bounds of integers
//! and of strings, and keeps all files that these bounds do not exclude. [`ScanFilter::may_match`]
//! evaluates the rest, file by file.

use std::ops::Range;

use super::filter::ScanFilter;
use super::predicate::{ColumnPredicate, ColumnTest, Predicate, ValueTest};
use super::statistics::FileStatistics;
use crate::expression::{Comparison, Membership};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The side of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Lower bounds.
    Lower,
    /// Upper bounds.
    Upper,
}

/// Number of files in a block. [`ManifestStatistics::block_extremes`] has one number for each block.
pub const BLOCK_FILES: usize = 256;

/// The bounds of a column in all files of a manifest, if all bounds have the same length.
#[derive(Debug, Clone, Copy)]
pub enum EqualLengthBounds<'a> {
    /// Bounds of 4 bytes.
    Four(&'a [[u8; 4]]),
    /// Bounds of 8 bytes.
    Eight(&'a [[u8; 8]]),
}

/// The statistics of the files of a manifest.
pub trait ManifestStatistics {
    /// The statistics of one file.
    type File<'a>: FileStatistics
    where
        Self: 'a;

    /// Returns the statistics of the file at this position.
    fn file(&self, row: usize) -> Self::File<'_>;

    /// Returns the bounds of a column, one for each file. `None` if a file has no bound, or if the
    /// lengths differ.
    fn equal_length_bounds(&self, field_id: i32, side: Side) -> Option<EqualLengthBounds<'_>>;

    /// Returns the smallest lower bound, or the greatest upper bound, of each block of
    /// [`BLOCK_FILES`] files, if the bounds are integers of equal length.
    fn block_extremes(&self, field_id: i32, side: Side) -> &[i64];
}

impl EqualLengthBounds<'_> {
    /// Returns the bounds of these files as integers.
    fn integers(&self, rows: Range<usize>) -> impl Iterator<Item = i64> {
        let (four, eight) = match self {
            Self::Four(bounds) => (bounds.get(rows).unwrap_or_default(), &[][..]),
            Self::Eight(bounds) => (&[][..], bounds.get(rows).unwrap_or_default()),
        };
        let four = four.iter().map(|bound| i64::from(i32::from_le_bytes(*bound)));
        four.chain(eight.iter().map(|bound| i64::from_le_bytes(*bound)))
    }

    /// Returns the extremes of the blocks, as [`ManifestStatistics::block_extremes`] does.
    pub fn block_extremes(&self, side: Side) -> Box<[i64]> {
        let files = match self {
            Self::Four(bounds) => bounds.len(),
            Self::Eight(bounds) => bounds.len(),
        };
        let extreme = |rows| {
            let bounds = self.integers(rows);
            match side {
                Side::Lower => bounds.min().unwrap_or(i64::MIN),
                Side::Upper => bounds.max().unwrap_or(i64::MAX),
            }
        };
        blocks(0..files).map(|(_, rows)| extreme(rows)).collect()
    }
}

/// Returns the parts of a range of files that are in the same block, with the numbers of the blocks.
fn blocks(rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let numbers = rows.start / BLOCK_FILES..rows.end.div_ceil(BLOCK_FILES);
    numbers.map(move |block| {
        let (first, end) = (block * BLOCK_FILES, (block + 1) * BLOCK_FILES);
        (block, first.max(rows.start)..end.min(rows.end))
    })
}

impl ScanFilter {
    /// Returns the positions, among these, of the files that may have a row that the filter selects,
    /// as far as bounds show this.
    pub fn narrow(&self, manifest: &impl ManifestStatistics, rows: Range<usize>) -> Vec<usize> {
        let conditions = BoundConditions::of(self.root(), manifest);
        let mut kept = Vec::new();
        for (block, files) in blocks(rows) {
            if conditions.may_match_block(block) {
                let mut keep = [true; BLOCK_FILES];
                let keep = &mut keep[..files.len()];
                conditions.narrow(manifest, &files, keep);
                let of_block = files.zip(keep).filter(|(_, keep)| **keep);
                kept.extend(of_block.map(|(row, _)| row));
            }
        }
        kept
    }
}

/// The conditions of a filter that bounds can decide, with the bounds of a manifest.
enum BoundConditions<'a> {
    /// Nothing is known.
    True,
    /// No file matches.
    False,
    /// Both hold.
    And(Box<Self>, Box<Self>),
    /// At least one holds.
    Or(Box<Self>, Box<Self>),
    /// The bounds on one side of a column of integers, and their limit.
    Integer { bounds: IntegerBounds<'a>, side: Side, limit: i64, is_included: bool },
    /// The bounds of a column of integers, and a sorted set of values.
    Among { lower: IntegerBounds<'a>, upper: IntegerBounds<'a>, set: Vec<i64> },
    /// A column of strings, and the limit of its bounds on one side.
    String { field_id: i32, side: Side, limit: &'a str, is_included: bool },
}

impl<'a> BoundConditions<'a> {
    fn of(
        predicate: &'a Predicate<ColumnPredicate>,
        manifest: &'a impl ManifestStatistics,
    ) -> Self {
        match predicate {
            Predicate::Constant(true) => Self::True,
            Predicate::Constant(false) => Self::False,
            Predicate::Leaf(leaf) => {
                leaf.test.as_ref().map_or(Self::True, |test| Self::of_test(test, manifest))
            }
            Predicate::And(left, right) => Self::of(left, manifest).and(Self::of(right, manifest)),
            Predicate::Or(left, right) => {
                match (Self::of(left, manifest), Self::of(right, manifest)) {
                    (Self::True, _) | (_, Self::True) => Self::True,
                    (left, right) => Self::Or(Box::new(left), Box::new(right)),
                }
            }
        }
    }

    fn of_test(test: &'a ColumnTest, manifest: &'a impl ManifestStatistics) -> Self {
        let Some(primitive) = test.column.primitive.as_ref() else { return Self::True };
        if test.transform != Transform::Identity {
            return Self::True;
        }
        let bounds = |side| IntegerBounds::of(test, primitive, manifest, side);
        if let ValueTest::Among(Membership::In, set) = &test.test
            && let Some(set) = set.integers()
        {
            return match (bounds(Side::Lower), bounds(Side::Upper)) {
                (Some(lower), Some(upper)) => Self::Among { lower, upper, set },
                _ => Self::True,
            };
        }
        let Limits { lower, upper } = Limits::of(&test.test);
        let of_side = |side, limit: Option<(&'a Datum, bool)>| match limit {
            Some((Datum::Integer(limit), is_included)) => match bounds(side) {
                Some(bounds) => Self::Integer { bounds, side, limit: *limit, is_included },
                None => Self::True,
            },
            Some((Datum::String(limit), is_included)) => {
                Self::String { field_id: test.column.field_id, side, limit, is_included }
            }
            _ => Self::True,
        };
        of_side(Side::Lower, lower).and(of_side(Side::Upper, upper))
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::True, one) | (one, Self::True) => one,
            (one, other) => Self::And(Box::new(one), Box::new(other)),
        }
    }

    /// Whether a file of a block may match, as far as the extremes of the block show this.
    fn may_match_block(&self, block: usize) -> bool {
        match self {
            Self::True | Self::String { .. } => true,
            Self::False => false,
            Self::And(left, right) => left.may_match_block(block) && right.may_match_block(block),
            Self::Or(left, right) => left.may_match_block(block) || right.may_match_block(block),
            Self::Integer { bounds, side, limit, is_included } => {
                let extreme = bounds.extremes.get(block);
                extreme.is_none_or(|extreme| accepts(extreme, limit, *side, *is_included))
            }
            Self::Among { lower, upper, set } => {
                match (lower.extremes.get(block), upper.extremes.get(block)) {
                    (Some(least), Some(greatest)) => has_value(set, *least, *greatest),
                    _ => true,
                }
            }
        }
    }

    /// Sets the values of files without matching rows to `false`. The files are in one block.
    fn narrow(&self, manifest: &impl ManifestStatistics, files: &Range<usize>, keep: &mut [bool]) {
        match self {
            Self::True => {}
            Self::False => keep.fill(false),
            Self::And(left, right) => {
                left.narrow(manifest, files, keep);
                right.narrow(manifest, files, keep);
            }
            Self::Or(left, right) => {
                let mut of_right = keep.to_vec();
                left.narrow(manifest, files, keep);
                right.narrow(manifest, files, &mut of_right);
                for (keep, right) in keep.iter_mut().zip(of_right) {
                    *keep |= right;
                }
            }
            Self::Integer { bounds, side, limit, is_included } => {
                for (keep, bound) in keep.iter_mut().zip(bounds.each.integers(files.clone())) {
                    *keep &= accepts(&bound, limit, *side, *is_included);
                }
            }
            Self::Among { lower, upper, set } => {
                let block = files.start / BLOCK_FILES;
                let set = match (lower.extremes.get(block), upper.extremes.get(block)) {
                    (Some(least), Some(greatest)) => values_between(set, *least, *greatest),
                    _ => set,
                };
                let lower = lower.each.integers(files.clone());
                let bounds = lower.zip(upper.each.integers(files.clone()));
                for (keep, (lower, upper)) in keep.iter_mut().zip(bounds) {
                    *keep &= has_value(set, lower, upper);
                }
            }
            Self::String { field_id, side, limit, is_included } => {
                for (keep, row) in keep.iter_mut().zip(files.clone()).filter(|(keep, _)| **keep) {
                    let file = manifest.file(row);
                    let bound = match side {
                        Side::Lower => file.lower_bound(*field_id),
                        Side::Upper => file.upper_bound(*field_id),
                    };
                    let accepts =
                        |bound: &[u8]| accepts(bound, limit.as_bytes(), *side, *is_included);
                    // A bound that is not UTF-8 proves nothing.
                    *keep = bound
                        .is_none_or(|bound| accepts(bound) || std::str::from_utf8(bound).is_err());
                }
            }
        }
    }
}

/// Whether a sorted set has a value in this range.
fn has_value(set: &[i64], least: i64, greatest: i64) -> bool {
    let next = set.get(set.partition_point(|value| *value < least));
    next.is_some_and(|next| *next <= greatest)
}

/// Returns the values of a sorted set in this range.
fn values_between(set: &[i64], least: i64, greatest: i64) -> &[i64] {
    let (_, from) = set.split_at(set.partition_point(|value| *value < least));
    &from[..from.partition_point(|value| *value <= greatest)]
}

/// The bounds of a column whose bounds are integers.
struct IntegerBounds<'a> {
    each: EqualLengthBounds<'a>,
    extremes: &'a [i64],
}

impl<'a> IntegerBounds<'a> {
    /// Returns the bounds of the column of a test. `None` if they are not integers of its type.
    fn of(
        test: &ColumnTest,
        primitive: &PrimitiveType,
        manifest: &'a impl ManifestStatistics,
        side: Side,
    ) -> Option<Self> {
        use PrimitiveType as P;
        let field_id = test.column.field_id;
        let each = manifest.equal_length_bounds(field_id, side)?;
        match (&each, primitive) {
            (EqualLengthBounds::Four(_), P::Int | P::Long | P::Date)
            | (
                EqualLengthBounds::Eight(_),
                P::Long
                | P::Time
                | P::Timestamp
                | P::Timestamptz
                | P::TimestampNs
                | P::TimestamptzNs,
            ) => Some(Self { each, extremes: manifest.block_extremes(field_id, side) }),
            // For example, bounds of a date in a column that is a timestamp now.
            _ => None,
        }
    }
}

/// The limits of the bounds of a file in which a test may pass, and whether the bound may be equal
/// to the limit. `lower` is the maximum of the lower bound, and `upper` is the minimum of the upper
/// bound.
struct Limits<'a> {
    lower: Option<(&'a Datum, bool)>,
    upper: Option<(&'a Datum, bool)>,
}

impl<'a> Limits<'a> {
    fn of(test: &'a ValueTest) -> Self {
        let (lower, upper) = match test {
            ValueTest::Compare(Comparison::Lt, limit) => (Some((limit, false)), None),
            ValueTest::Compare(Comparison::LtEq, limit) => (Some((limit, true)), None),
            ValueTest::Compare(Comparison::Gt, limit) => (None, Some((limit, false))),
            ValueTest::Compare(Comparison::GtEq, limit) => (None, Some((limit, true))),
            ValueTest::Compare(Comparison::Eq, value) => (Some((value, true)), Some((value, true))),
            // A value that starts with a prefix is not less than the prefix.
            ValueTest::Compare(Comparison::StartsWith, prefix) => (None, Some((prefix, true))),
            ValueTest::Among(Membership::In, set) => {
                let limit = |value: Option<&'a Datum>| value.map(|value| (value, true));
                (limit(set.last()), limit(set.first()))
            }
            ValueTest::Compare(Comparison::NotEq | Comparison::NotStartsWith, _)
            | ValueTest::Among(Membership::NotIn, _)
            | ValueTest::Is(_) => (None, None),
        };
        Self { lower, upper }
    }
}

/// Whether a file with this bound may match.
fn accepts<T: Ord + ?Sized>(bound: &T, limit: &T, side: Side, is_included: bool) -> bool {
    match (side, is_included) {
        (Side::Lower, true) => bound <= limit,
        (Side::Lower, false) => bound < limit,
        (Side::Upper, true) => bound >= limit,
        (Side::Upper, false) => bound > limit,
    }
}
