//! Projects a test of a column through a partition field: to a test of the partition value that
//! all rows pass which pass the original (inclusive), or that only such rows pass (strict).

use super::predicate::{ColumnTest, DatumSet, ValueTest};
use super::spec::BoundField;
use crate::expression::{Comparison, Membership, Test};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The tests of a partition value that a test of a column implies.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Projection {
    /// If it fails, no row of the partition matches. `None`: unknown.
    pub(super) inclusive: Option<ValueTest>,
    /// If it passes, all rows of the partition match. `None`: unknown.
    pub(super) strict: Option<ValueTest>,
}

impl Projection {
    /// The same test in both ways: it passes for exactly the rows that match.
    fn exact(test: &ValueTest) -> Self {
        Self { inclusive: Some(test.clone()), strict: Some(test.clone()) }
    }

    /// Projects a test through a field. Proves nothing if the field has another column.
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
        // A transform of null is null, and that of another value is not.
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

    /// Widens the tests for partitions of writers that rounded dates and times before 1970 up: their
    /// values may be one greater.
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

/// Projects a set: values in it are in the set of the transforms, and values whose transform is not
/// in that set are not in it.
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

/// Projects through a transform that maps intervals of numbers, dates or times to one value each.
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
        // The partition value shows whether a row starts with a prefix that is not longer.
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
        // The only strict tests with a lower limit exclude the limit itself.
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
