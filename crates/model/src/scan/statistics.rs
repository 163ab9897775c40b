//! [`FileStatistics`]: the statistics of a content file.

use std::cmp::Ordering;

use bytes::Bytes;

use super::predicate::BoundColumn;
use crate::manifest_file::FieldSummary;
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The statistics of a content file, from its manifest entry.
pub trait FileStatistics {
    /// Returns the number of rows. Negative: unknown.
    fn record_count(&self) -> i64;

    /// Returns the number of values of a field, including null and NaN. `None`: unknown.
    fn value_count(&self, field_id: i32) -> Option<i64>;

    /// Returns the number of null values of a field. `None`: unknown.
    fn null_count(&self, field_id: i32) -> Option<i64>;

    /// Returns the number of NaN values of a field. `None`: unknown.
    fn nan_count(&self, field_id: i32) -> Option<i64>;

    /// Returns a lower bound of all values except null and NaN. `None`: unknown.
    fn lower_bound(&self, field_id: i32) -> Option<&[u8]>;

    /// Returns an upper bound of all values except null and NaN. `None`: unknown.
    fn upper_bound(&self, field_id: i32) -> Option<&[u8]>;
}

/// The proven properties of the values of a column or of a partition field, in a file, a manifest
/// or a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ValueRange {
    /// No value is null.
    pub(super) no_null: bool,
    /// All values are null.
    pub(super) all_null: bool,
    /// No value is NaN.
    pub(super) no_nan: bool,
    /// All values are NaN.
    pub(super) all_nan: bool,
    /// All values are null, or all are NaN, so that comparisons with a literal select none of them.
    /// As in the reference implementation, a file with both is not included: some engines order NaN
    /// after all numbers.
    pub(super) no_comparable: bool,
    /// Lower bound of all values except null and NaN. `None`: unknown. Some writers write NaN as a
    /// bound. Such a bound proves nothing, because NaN is neither less nor greater than any value.
    pub(super) lower: Option<Datum>,
    /// Upper bound of all values except null and NaN. `None`: unknown.
    pub(super) upper: Option<Datum>,
}

impl ValueRange {
    /// Returns the properties that the statistics of a file prove for a column. Reads bounds only
    /// if `needs_bounds` is true.
    pub(super) fn of_column(
        file: &impl FileStatistics,
        column: &BoundColumn,
        needs_bounds: bool,
    ) -> Self {
        let id = column.field_id;
        let primitive = column.primitive.as_ref();
        let values = file.value_count(id).filter(|count| *count >= 0);
        let nulls = file.null_count(id);
        let is_floating = primitive.is_none_or(is_floating);
        let nans = if is_floating { file.nan_count(id) } else { Some(0) };
        // Some writers do not count the rows whose enclosing struct is null.
        let counts_all_rows = !column.is_nested || values == Some(file.record_count());
        let bound = |bytes: Option<&[u8]>| Datum::from_bytes(primitive?, bytes?);
        let (lower, upper) = if needs_bounds {
            (bound(file.lower_bound(id)), bound(file.upper_bound(id)))
        } else {
            (None, None)
        };
        Self {
            no_null: nulls == Some(0) && counts_all_rows,
            all_null: values.is_some() && nulls == values,
            no_nan: nans == Some(0),
            all_nan: values.is_some() && nans == values && counts_all_rows,
            no_comparable: values.is_some() && (nulls == values || nans == values),
            lower,
            upper,
        }
    }

    /// Returns the properties that the summary of a manifest proves for a partition field.
    pub(super) fn of_summary(summary: &FieldSummary, primitive: &PrimitiveType) -> Self {
        let has_nan = if is_floating(primitive) { summary.contains_nan } else { Some(false) };
        let bound = |bytes: &Option<Bytes>| Datum::from_bytes(primitive, bytes.as_ref()?);
        // The bounds are absent if all values are null or NaN.
        let has_bounds = summary.lower_bound.is_some() || summary.upper_bound.is_some();
        let has_null = summary.contains_null;
        Self {
            no_null: !has_null,
            all_null: has_null && !has_bounds && has_nan == Some(false),
            no_nan: has_nan == Some(false),
            all_nan: !has_null && !has_bounds && has_nan == Some(true),
            no_comparable: !has_bounds && (has_null || has_nan == Some(true)),
            lower: bound(&summary.lower_bound),
            upper: bound(&summary.upper_bound),
        }
    }

    /// Returns the properties of one value.
    pub(super) fn of_value(value: Option<&Datum>) -> Self {
        match value {
            None => Self { all_null: true, no_nan: true, no_comparable: true, ..Self::default() },
            // Engines disagree whether NaN is greater than a literal, so NaN proves nothing for
            // comparisons.
            Some(value) if value.is_nan() => {
                Self { no_null: true, all_nan: true, ..Self::default() }
            }
            Some(value) => Self {
                no_null: true,
                no_nan: true,
                lower: Some(value.clone()),
                upper: Some(value.clone()),
                ..Self::default()
            },
        }
    }

    /// Returns the properties of the values after this transform.
    pub(super) fn transform(self, transform: &Transform, source: &PrimitiveType) -> Self {
        let apply = |bound: Option<Datum>| {
            let bound = bound.filter(|_| transform.preserves_order())?;
            transform.apply(source, &bound)
        };
        Self { lower: apply(self.lower), upper: apply(self.upper), ..self }
    }

    /// Returns the only value other than null and NaN. `None` if there may be several such values.
    pub(super) fn only_value(&self) -> Option<&Datum> {
        let (lower, upper) = (self.lower.as_ref()?, self.upper.as_ref()?);
        (lower.compare(upper) == Some(Ordering::Equal)).then_some(lower)
    }
}

pub(super) fn is_floating(primitive: &PrimitiveType) -> bool {
    matches!(primitive, PrimitiveType::Float | PrimitiveType::Double)
}
