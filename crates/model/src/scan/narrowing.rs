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
}

impl ScanFilter {
    /// Returns, for each file at these positions, whether it may have a row that the filter selects,
    /// as far as bounds show this.
    pub fn narrow(&self, manifest: &impl ManifestStatistics, rows: Range<usize>) -> Vec<bool> {
        let mut keep = vec![true; rows.len()];
        narrow(self.root(), manifest, &rows, &mut keep);
        keep
    }
}

/// Sets the values of files without matching rows to `false`.
fn narrow(
    predicate: &Predicate<ColumnPredicate>,
    manifest: &impl ManifestStatistics,
    rows: &Range<usize>,
    keep: &mut [bool],
) {
    match predicate {
        Predicate::Constant(true) => {}
        Predicate::Constant(false) => keep.fill(false),
        Predicate::Leaf(leaf) => {
            if let Some(test) = &leaf.test {
                narrow_by(test, manifest, rows, keep);
            }
        }
        Predicate::And(left, right) => {
            narrow(left, manifest, rows, keep);
            narrow(right, manifest, rows, keep);
        }
        Predicate::Or(left, right) => {
            let mut of_right = keep.to_vec();
            narrow(left, manifest, rows, keep);
            narrow(right, manifest, rows, &mut of_right);
            for (keep, right) in keep.iter_mut().zip(of_right) {
                *keep |= right;
            }
        }
    }
}

fn narrow_by(
    test: &ColumnTest,
    manifest: &impl ManifestStatistics,
    rows: &Range<usize>,
    keep: &mut [bool],
) {
    let Some(primitive) = test.column.primitive.as_ref() else { return };
    if test.transform != Transform::Identity {
        return;
    }
    if let ValueTest::Among(Membership::In, set) = &test.test
        && let Some(values) = set.integers()
    {
        return narrow_to_set(test.column.field_id, primitive, &values, manifest, rows, keep);
    }
    let Limits { lower, upper } = Limits::of(&test.test);
    for (side, limit) in [(Side::Lower, lower), (Side::Upper, upper)] {
        let Some((limit, is_included)) = limit else { continue };
        match limit {
            Datum::Integer(limit) => {
                let bounds = manifest.equal_length_bounds(test.column.field_id, side);
                for_each_integer(primitive, bounds, rows, |at, bound| {
                    keep[at] &= accepts(&bound, limit, side, is_included);
                });
            }
            Datum::String(limit) => {
                let accepts = |bound: &[u8]| accepts(bound, limit.as_bytes(), side, is_included);
                narrow_strings(manifest, (test.column.field_id, side), accepts, rows, keep);
            }
            _ => {}
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

/// Calls a function with the position and the bound of each file, if the bounds are integers.
fn for_each_integer(
    primitive: &PrimitiveType,
    bounds: Option<EqualLengthBounds<'_>>,
    rows: &Range<usize>,
    mut each: impl FnMut(usize, i64),
) {
    use PrimitiveType as P;
    match (bounds, primitive) {
        (Some(EqualLengthBounds::Four(bounds)), P::Int | P::Long | P::Date) => {
            let bounds = bounds.get(rows.clone()).unwrap_or_default();
            let each = |(at, bound): (usize, &[u8; 4])| each(at, i32::from_le_bytes(*bound).into());
            bounds.iter().enumerate().for_each(each);
        }
        (
            Some(EqualLengthBounds::Eight(bounds)),
            P::Long | P::Time | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs,
        ) => {
            let bounds = bounds.get(rows.clone()).unwrap_or_default();
            let each = |(at, bound): (usize, &[u8; 8])| each(at, i64::from_le_bytes(*bound));
            bounds.iter().enumerate().for_each(each);
        }
        // For example, bounds of a date in a column that is a timestamp now.
        _ => {}
    }
}

/// Sets the values of files whose bounds exclude all values of a sorted set to `false`.
fn narrow_to_set(
    field_id: i32,
    primitive: &PrimitiveType,
    set: &[i64],
    manifest: &impl ManifestStatistics,
    rows: &Range<usize>,
    keep: &mut [bool],
) {
    let bounds = |side| manifest.equal_length_bounds(field_id, side);
    // For each file, the values that are not below its lower bound. Most manifests have values in a
    // small range, so first the set is limited to this range.
    let mut least = None;
    for_each_integer(primitive, bounds(Side::Lower), rows, |_, bound| {
        least = Some(least.map_or(bound, |least: i64| least.min(bound)));
    });
    let mut greatest = None;
    for_each_integer(primitive, bounds(Side::Upper), rows, |_, bound| {
        greatest = Some(greatest.map_or(bound, |greatest: i64| greatest.max(bound)));
    });
    let (Some(least), Some(greatest)) = (least, greatest) else { return };
    let first = set.partition_point(|value| *value < least);
    let end = set.partition_point(|value| *value <= greatest);
    let set = set.get(first..end).unwrap_or_default();
    let mut next = vec![None; keep.len()];
    for_each_integer(primitive, bounds(Side::Lower), rows, |at, bound| {
        next[at] = set.get(set.partition_point(|value| *value < bound)).copied();
    });
    for_each_integer(primitive, bounds(Side::Upper), rows, |at, bound| {
        keep[at] &= next[at].is_some_and(|next| next <= bound);
    });
}

fn narrow_strings(
    manifest: &impl ManifestStatistics,
    (field_id, side): (i32, Side),
    accepts: impl Fn(&[u8]) -> bool,
    rows: &Range<usize>,
    keep: &mut [bool],
) {
    for (keep, row) in keep.iter_mut().zip(rows.clone()).filter(|(keep, _)| **keep) {
        let file = manifest.file(row);
        let bound = match side {
            Side::Lower => file.lower_bound(field_id),
            Side::Upper => file.upper_bound(field_id),
        };
        // A bound that is not UTF-8 proves nothing.
        *keep = bound.is_none_or(|bound| accepts(bound) || std::str::from_utf8(bound).is_err());
    }
}
