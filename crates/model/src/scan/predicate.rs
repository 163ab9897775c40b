//! [`Predicate`]: a bound filter without negations.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::expression::{Comparison, Expression, Membership, Test};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// A combination of leaves by *and* and *or*. Negations are inside the leaves. So if all leaves are
/// evaluated inclusively, the result of the combination is inclusive, too. The same applies to
/// strict evaluations.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Predicate<L> {
    /// All rows or no rows.
    Constant(bool),
    /// The rows that a leaf selects.
    Leaf(L),
    /// The rows that both operands select.
    And(Box<Self>, Box<Self>),
    /// The rows that at least one operand selects.
    Or(Box<Self>, Box<Self>),
}

/// The rows of a file that a predicate selects, as far as statistics show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Matching {
    /// No row.
    None,
    /// Any rows: the statistics prove nothing.
    Some,
    /// All rows.
    All,
}

impl<L> Predicate<L> {
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(true), one) | (one, Self::Constant(true)) => one,
            (Self::Constant(false), _) | (_, Self::Constant(false)) => Self::Constant(false),
            (one, other) => Self::And(Box::new(one), Box::new(other)),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(false), one) | (one, Self::Constant(false)) => one,
            (Self::Constant(true), _) | (_, Self::Constant(true)) => Self::Constant(true),
            (one, other) => Self::Or(Box::new(one), Box::new(other)),
        }
    }

    /// Evaluates each leaf with `evaluate`, and combines the results.
    pub(super) fn evaluate(&self, evaluate: &impl Fn(&L) -> bool) -> bool {
        match self {
            Self::Constant(all) => *all,
            Self::Leaf(leaf) => evaluate(leaf),
            Self::And(left, right) => left.evaluate(evaluate) && right.evaluate(evaluate),
            Self::Or(left, right) => left.evaluate(evaluate) || right.evaluate(evaluate),
        }
    }

    /// Evaluates each leaf with `evaluate`, and combines the results.
    pub(super) fn matching(&self, evaluate: &impl Fn(&L) -> Matching) -> Matching {
        match self {
            Self::Constant(false) => Matching::None,
            Self::Constant(true) => Matching::All,
            Self::Leaf(leaf) => evaluate(leaf),
            Self::And(left, right) => match left.matching(evaluate) {
                Matching::None => Matching::None,
                left => left.min(right.matching(evaluate)),
            },
            Self::Or(left, right) => match left.matching(evaluate) {
                Matching::All => Matching::All,
                left => left.max(right.matching(evaluate)),
            },
        }
    }

    /// Replaces each leaf, and simplifies the result.
    pub(super) fn map<M>(&self, replace: &impl Fn(&L) -> Predicate<M>) -> Predicate<M> {
        match self {
            Self::Constant(all) => Predicate::Constant(*all),
            Self::Leaf(leaf) => replace(leaf),
            Self::And(left, right) => left.map(replace).and(right.map(replace)),
            Self::Or(left, right) => left.map(replace).or(right.map(replace)),
        }
    }

    /// Divides a conjunction into at most `max` conjuncts. The constant `true` has none.
    pub(super) fn conjuncts(&self, max: usize) -> Vec<&Self> {
        let (mut all, mut at) = (vec![self], 0);
        while let Some(one) = all.get(at).copied().filter(|_| all.len() < max) {
            match one {
                Self::Constant(true) => drop(all.remove(at)),
                Self::And(left, right) => drop(all.splice(at..=at, [&**left, &**right])),
                _ => at += 1,
            }
        }
        all
    }

    /// Returns the conjunction of these predicates. It is balanced, so that it is not deep.
    pub(super) fn all(mut conjuncts: Vec<Self>) -> Self {
        while conjuncts.len() > 1 {
            let mut rest = conjuncts.into_iter();
            let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(one) = rest.next() {
                pairs.push(match rest.next() {
                    Some(other) => one.and(other),
                    None => one,
                });
            }
            conjuncts = pairs;
        }
        conjuncts.pop().unwrap_or(Self::Constant(true))
    }

    pub(super) fn visit(&self, visit: &mut impl FnMut(&L)) {
        match self {
            Self::Constant(_) => {}
            Self::Leaf(leaf) => visit(leaf),
            Self::And(left, right) | Self::Or(left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
        }
    }
}

/// A predicate of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnPredicate {
    /// The test of a column. `None` if only the client can evaluate the predicate.
    pub(super) test: Option<Arc<ColumnTest>>,
    /// The predicate as the client wrote it, or its negation.
    pub(super) source: Arc<Expression>,
}

/// A test of a column's values, or of their transforms.
#[derive(Debug, PartialEq)]
pub(super) struct ColumnTest {
    pub(super) column: BoundColumn,
    pub(super) transform: Transform,
    pub(super) test: ValueTest,
    /// The values of the set as the client wrote them, in the order of the set. Empty for tests
    /// without a set.
    pub(super) literals: Vec<Value>,
}

/// A column that a filter tests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BoundColumn {
    pub(super) field_id: i32,
    /// The type. `None` if it is not primitive.
    pub(super) primitive: Option<PrimitiveType>,
    /// Whether the column is inside a struct.
    pub(super) is_nested: bool,
}

/// A test of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueTest {
    /// A test for null or NaN.
    Is(Test),
    /// Comparison with a literal.
    Compare(Comparison, Datum),
    /// Membership in a set.
    Among(Membership, DatumSet),
}

/// A set of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DatumSet(Vec<Datum>);

impl DatumSet {
    pub(super) fn new(values: Vec<Datum>) -> Self {
        Self::with_literals(values.into_iter().map(|value| (value, ())).collect()).0
    }

    /// Returns the set of these values, and the literals in the order of the set.
    pub(super) fn with_literals<L>(mut values: Vec<(Datum, L)>) -> (Self, Vec<L>) {
        values.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        values.dedup_by(|(one, _), (other, _)| one == other);
        let (values, literals) = values.into_iter().unzip();
        (Self(values), literals)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the positions of the values that may be between the bounds.
    pub(super) fn between(&self, lower: Option<&Datum>, upper: Option<&Datum>) -> Range<usize> {
        // A set with NaN is not ordered.
        if [self.first(), self.last()].into_iter().flatten().any(Datum::is_nan) {
            return 0..self.0.len();
        }
        let is_below = |value: &Datum| lower.is_some_and(|lower| value.compare(lower) == LESS);
        let is_above = |value: &Datum| upper.is_some_and(|upper| value.compare(upper) == GREATER);
        let first = self.0.partition_point(is_below);
        first..self.0.partition_point(|value| !is_above(value)).max(first)
    }

    pub(super) fn first(&self) -> Option<&Datum> {
        self.0.first()
    }

    pub(super) fn last(&self) -> Option<&Datum> {
        self.0.last()
    }

    /// Returns the values, if all of them are integers.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        let integer = |value: &Datum| match value {
            Datum::Integer(value) => Some(*value),
            _ => None,
        };
        self.0.iter().map(integer).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Datum> {
        self.0.iter()
    }

    /// Whether the set may contain a value between the bounds.
    pub(super) fn may_intersect(&self, lower: Option<&Datum>, upper: Option<&Datum>) -> bool {
        let is_below = |value: &Datum| lower.is_some_and(|lower| value.compare(lower) == LESS);
        let first = self.0.partition_point(is_below);
        let is_above = |value: &Datum| upper.is_some_and(|upper| value.compare(upper) == GREATER);
        self.0.get(first).is_some_and(|value| !is_above(value))
    }

    /// Whether the set contains a value for every engine. Engines differ in the comparison of NaN,
    /// and of zeros with different signs.
    pub(super) fn contains(&self, value: &Datum) -> bool {
        let is_below = |one: &Datum| one.total_cmp(value).is_lt();
        let first = self.0.partition_point(is_below);
        self.0.get(first).is_some_and(|one| one.compare(value) == EQUAL)
    }
}

pub(super) const LESS: Option<std::cmp::Ordering> = Some(std::cmp::Ordering::Less);
pub(super) const EQUAL: Option<std::cmp::Ordering> = Some(std::cmp::Ordering::Equal);
pub(super) const GREATER: Option<std::cmp::Ordering> = Some(std::cmp::Ordering::Greater);
