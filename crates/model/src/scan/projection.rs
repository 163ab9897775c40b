//! Projects a test of a column through a partition field. The results are two tests of the
//! partition value. If any row of a partition passes the test of the column, the partition value
//! passes the *inclusive* test. If the partition value passes the *strict* test, all rows of the
//! partition pass the test of the column.

use super::predicate::{ColumnTest, DatumSet, ValueTest};
use super::spec::BoundField;
use crate::expression::{Comparison, Membership, Test};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The tests of a partition value that a test of a column implies.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Projection {
    /// The inclusive test. If it fails, no row of the partition matches. `None` if there is no such
    /// test.
    pub(super) inclusive: Option<ValueTest>,
    /// The strict test. If it passes, all rows of the partition match. `None` if there is no such
    /// test.
    pub(super) strict: Option<ValueTest>,
}

impl Projection {
    /// Uses `test` as both the inclusive and the strict test. The partition value passes it if and
    /// only if all rows of the partition match.
    fn exact(test: &ValueTest) -> Self {
        Self { inclusive: Some(test.clone()), strict: Some(test.clone()) }
    }

    /// Projects a test through a field. The projection is empty if the field has a different source
    /// column.
    pub(super) fn new(test: &ColumnTest, field: &BoundField) -> Self {
        if field.source_id != test.column.field_id || field.result_type.is_none() {
            return Self::default();
        }
        if test.transform == field.transform {
            return Self::exact(&test.test);
        }
        let (Some(source), Transform::Identity) = (&field.source_type, &test.transform) else {
            return Self::default();
        };
        // The transform of null is null, and the transform of any other value is not null.
        if matches!(test.test, ValueTest::Is(Test::IsNull | Test::NotNull)) {
            return Self::exact(&test.test);
        }
        match &field.transform {
            Transform::Bucket(_) => through_bucket(&field.transform, source, &test.test),
            Transform::Truncate(width) => {
                let is_prefix = matches!(source, PrimitiveType::String | PrimitiveType::Binary);
                if is_prefix {
                    through_prefix(*width, &field.transform, source, &test.test)
                } else {
                    through_steps(&field.transform, source, &test.test)
                }
            }
            Transform::Year | Transform::Month | Transform::Hour | Transform::Day => {
                let projection = through_steps(&field.transform, source, &test.test);
                let is_exact = *source == PrimitiveType::Date && field.transform == Transform::Day;
                if is_exact { projection } else { projection.for_old_writers() }
            }
            Transform::Identity | Transform::Void | Transform::Unknown(_) => Self::default(),
        }
    }

    /// Widens the tests for partitions of old writers. Those writers rounded dates and times before
    /// 1970 up, so their partition values may be greater by one.
    fn for_old_writers(self) -> Self {
        Self {
            inclusive: self.inclusive.and_then(widen_inclusive),
            strict: self.strict.and_then(widen_strict),
        }
    }
}

fn through_bucket(bucket: &Transform, source: &PrimitiveType, test: &ValueTest) -> Projection {
    let apply = |value: &Datum| bucket.apply(source, value);
    match test {
        ValueTest::Compare(Comparison::Eq, value) => Projection {
            inclusive: apply(value).map(|it| ValueTest::Compare(Comparison::Eq, it)),
            strict: None,
        },
        ValueTest::Compare(Comparison::NotEq, value) => Projection {
            inclusive: None,
            strict: apply(value).map(|it| ValueTest::Compare(Comparison::NotEq, it)),
        },
        ValueTest::Among(membership, set) => among(*membership, set, apply),
        ValueTest::Is(_) | ValueTest::Compare(..) => Projection::default(),
    }
}

/// Projects membership in a set to the set of the transformed values. If a value is in the set, its
/// transform is in the transformed set. So if the transform is not in the transformed set, the
/// value is not in the set.
fn among(
    membership: Membership,
    set: &DatumSet,
    apply: impl Fn(&Datum) -> Option<Datum>,
) -> Projection {
    let values: Option<Vec<_>> = set.iter().map(apply).collect();
    let test = values.map(|values| ValueTest::Among(membership, DatumSet::new(values)));
    match membership {
        Membership::In => Projection { inclusive: test, strict: None },
        Membership::NotIn => Projection { inclusive: None, strict: test },
    }
}

/// Projects through a transform that maps each interval of numbers, dates or times to one value.
fn through_steps(transform: &Transform, source: &PrimitiveType, test: &ValueTest) -> Projection {
    let apply = |value: &Datum| transform.apply(source, value);
    let (comparison, value) = match test {
        ValueTest::Compare(comparison, value) => (*comparison, value),
        ValueTest::Among(membership, set) => return among(*membership, set, apply),
        ValueTest::Is(_) => return Projection::default(),
    };
    let compare = |comparison, value: Option<Datum>| {
        value.and_then(|it| apply(&it)).map(|it| ValueTest::Compare(comparison, it))
    };
    let (value, before, after) = (Some(value.clone()), add(value, -1), add(value, 1));
    match comparison {
        Comparison::Lt => Projection {
            inclusive: compare(Comparison::LtEq, before),
            strict: compare(Comparison::Lt, value),
        },
        Comparison::LtEq => Projection {
            inclusive: compare(Comparison::LtEq, value),
            strict: compare(Comparison::Lt, after),
        },
        Comparison::Gt => Projection {
            inclusive: compare(Comparison::GtEq, after),
            strict: compare(Comparison::Gt, value),
        },
        Comparison::GtEq => Projection {
            inclusive: compare(Comparison::GtEq, value),
            strict: compare(Comparison::Gt, before),
        },
        Comparison::Eq => Projection { inclusive: compare(Comparison::Eq, value), strict: None },
        Comparison::NotEq => {
            Projection { inclusive: None, strict: compare(Comparison::NotEq, value) }
        }
        Comparison::StartsWith | Comparison::NotStartsWith => Projection::default(),
    }
}

/// Returns the next or previous number. Returns `None` if the type has no such number.
fn add(value: &Datum, step: i8) -> Option<Datum> {
    match value {
        Datum::Integer(number) => number.checked_add(step.into()).map(Datum::Integer),
        Datum::Decimal(unscaled) => unscaled.checked_add(step.into()).map(Datum::Decimal),
        _ => None,
    }
}

/// Projects through the truncation of a string or of bytes.
fn through_prefix(
    width: u32,
    truncate: &Transform,
    source: &PrimitiveType,
    test: &ValueTest,
) -> Projection {
    let apply = |value: &Datum| truncate.apply(source, value);
    let (comparison, value) = match test {
        ValueTest::Compare(comparison, value) => (*comparison, value),
        ValueTest::Among(membership, set) => return among(*membership, set, apply),
        ValueTest::Is(_) => return Projection::default(),
    };
    let compare = |comparison| apply(value).map(|value| ValueTest::Compare(comparison, value));
    let is_short = is_at_most(value, width);
    match comparison {
        Comparison::Lt | Comparison::LtEq => {
            Projection { inclusive: compare(Comparison::LtEq), strict: compare(Comparison::Lt) }
        }
        Comparison::Gt | Comparison::GtEq => {
            Projection { inclusive: compare(Comparison::GtEq), strict: compare(Comparison::Gt) }
        }
        Comparison::Eq => Projection { inclusive: compare(Comparison::Eq), strict: None },
        Comparison::NotEq => Projection { inclusive: None, strict: compare(Comparison::NotEq) },
        // The partition value is a truncated string. If the prefix is not longer, the partition
        // value shows whether a row starts with the prefix.
        Comparison::StartsWith | Comparison::NotStartsWith if is_short => Projection::exact(test),
        Comparison::StartsWith => Projection { inclusive: compare(Comparison::Eq), strict: None },
        Comparison::NotStartsWith => {
            Projection { inclusive: None, strict: compare(Comparison::NotEq) }
        }
    }
}

fn is_at_most(value: &Datum, width: u32) -> bool {
    let length = match value {
        Datum::String(text) => text.chars().count(),
        Datum::Bytes(bytes) => bytes.len(),
        _ => return false,
    };
    u32::try_from(length).is_ok_and(|length| length <= width)
}

fn widen_inclusive(test: ValueTest) -> Option<ValueTest> {
    Some(match test {
        ValueTest::Compare(comparison @ (Comparison::Lt | Comparison::LtEq), value) => {
            let value = if is_negative(&value) { add(&value, 1)? } else { value };
            ValueTest::Compare(comparison, value)
        }
        ValueTest::Compare(Comparison::Eq, value) if is_negative(&value) => {
            let next = add(&value, 1)?;
            ValueTest::Among(Membership::In, DatumSet::new(vec![value, next]))
        }
        ValueTest::Among(Membership::In, set) => {
            ValueTest::Among(Membership::In, with_next_of_negatives(&set))
        }
        other => other,
    })
}

fn widen_strict(test: ValueTest) -> Option<ValueTest> {
    Some(match test {
        // `GtEq` does not occur here, because strict projections express a lower limit only with
        // `Gt`.
        ValueTest::Compare(Comparison::Gt, value) if is_negative(&value) => {
            ValueTest::Compare(Comparison::Gt, add(&value, 1)?)
        }
        ValueTest::Compare(Comparison::NotEq, value) if is_negative(&value) => {
            let next = add(&value, 1)?;
            ValueTest::Among(Membership::NotIn, DatumSet::new(vec![value, next]))
        }
        ValueTest::Among(Membership::NotIn, set) => {
            ValueTest::Among(Membership::NotIn, with_next_of_negatives(&set))
        }
        other => other,
    })
}

fn with_next_of_negatives(set: &DatumSet) -> DatumSet {
    let negatives = set.iter().filter(|value| is_negative(value));
    let next = negatives.filter_map(|value| add(value, 1));
    DatumSet::new(set.iter().cloned().chain(next).collect())
}

fn is_negative(value: &Datum) -> bool {
    matches!(value, Datum::Integer(number) if *number < 0)
}
