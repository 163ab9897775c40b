//! The inclusive and the strict evaluation of a test, from the known properties of the values.

use super::predicate::{EQUAL, GREATER, LESS, ValueTest};
use super::statistics::ValueRange;
use crate::expression::{Comparison, Membership, Test};
use crate::value::Datum;

impl ValueTest {
    /// Whether the evaluation reads bounds.
    pub(super) fn needs_bounds(&self) -> bool {
        !matches!(self, Self::Is(_))
    }

    /// Whether any value may pass. `false` proves that no value passes.
    pub(super) fn may_match(&self, range: &ValueRange) -> bool {
        match self {
            Self::Is(Test::IsNull) => !range.no_null,
            Self::Is(Test::NotNull) => !range.all_null,
            Self::Is(Test::IsNan) => !range.no_nan && !range.all_null,
            Self::Is(Test::NotNan) => !range.all_nan,
            Self::Compare(comparison, literal) => may_compare(*comparison, literal, range),
            Self::Among(Membership::In, set) => {
                let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
                !range.no_comparable && set.may_intersect(lower, upper)
            }
            Self::Among(Membership::NotIn, set) => {
                !equals_always(range, |value| set.contains(value))
            }
        }
    }

    /// Whether all values certainly pass. `false` proves nothing.
    pub(super) fn all_match(&self, range: &ValueRange) -> bool {
        match self {
            Self::Is(Test::IsNull) => range.all_null,
            Self::Is(Test::NotNull) => range.no_null,
            Self::Is(Test::IsNan) => range.all_nan,
            Self::Is(Test::NotNan) => range.no_nan || range.all_null,
            Self::Compare(comparison, literal) => all_compare(*comparison, literal, range),
            Self::Among(Membership::In, set) => equals_always(range, |value| set.contains(value)),
            Self::Among(Membership::NotIn, set) => {
                let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
                range.no_comparable || !set.may_intersect(lower, upper)
            }
        }
    }
}

fn may_compare(comparison: Comparison, literal: &Datum, range: &ValueRange) -> bool {
    let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
    let lower = lower.and_then(|lower| lower.compare(literal));
    let upper = upper.and_then(|upper| upper.compare(literal));
    match comparison {
        Comparison::NotEq => !equals_always(range, |value| value.compare(literal) == EQUAL),
        Comparison::NotStartsWith => {
            !(range.no_null && bounds_start_with(range, literal) == (true, true))
        }
        _ if range.no_comparable => false,
        Comparison::Lt => lower != GREATER && lower != EQUAL,
        Comparison::LtEq => lower != GREATER,
        Comparison::Gt => upper != LESS && upper != EQUAL,
        Comparison::GtEq => upper != LESS,
        Comparison::Eq => lower != GREATER && upper != LESS,
        Comparison::StartsWith => !excludes_prefix(range, literal),
    }
}

fn all_compare(comparison: Comparison, literal: &Datum, range: &ValueRange) -> bool {
    let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
    let lower = lower.and_then(|lower| lower.compare(literal));
    let upper = upper.and_then(|upper| upper.compare(literal));
    match comparison {
        Comparison::NotEq => range.no_comparable || lower == GREATER || upper == LESS,
        Comparison::NotStartsWith => range.no_comparable || excludes_prefix(range, literal),
        _ if !range.no_null || !range.no_nan => false,
        Comparison::Lt => upper == LESS,
        Comparison::LtEq => upper == LESS || upper == EQUAL,
        Comparison::Gt => lower == GREATER,
        Comparison::GtEq => lower == GREATER || lower == EQUAL,
        Comparison::Eq => lower == EQUAL && upper == EQUAL,
        Comparison::StartsWith => bounds_start_with(range, literal) == (true, true),
    }
}

/// Whether all values equal one value for which `test` holds.
fn equals_always(range: &ValueRange, test: impl Fn(&Datum) -> bool) -> bool {
    range.no_null && range.no_nan && range.only_value().is_some_and(test)
}

/// Whether the lower and the upper bound start with a prefix. If both bounds start with the prefix,
/// all values between them start with it, too.
fn bounds_start_with(range: &ValueRange, prefix: &Datum) -> (bool, bool) {
    let starts = |bound: &Option<Datum>| {
        let bytes = bound.as_ref().and_then(Datum::as_bytes);
        bytes.zip(prefix.as_bytes()).is_some_and(|(bytes, prefix)| bytes.starts_with(prefix))
    };
    (starts(&range.lower), starts(&range.upper))
}

/// Whether the bounds prove that no value starts with a prefix. This is the case if all values are
/// less than the prefix, or greater than every value that starts with the prefix.
fn excludes_prefix(range: &ValueRange, prefix: &Datum) -> bool {
    let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
    let is_below = upper.is_some_and(|upper| upper.compare(prefix) == LESS);
    let is_above = lower.is_some_and(|lower| lower.compare(prefix) == GREATER);
    is_below || (is_above && !bounds_start_with(range, prefix).0)
}
