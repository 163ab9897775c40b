//! Expressions that select rows of a table (`format/expressions-spec.md` of Apache Iceberg).
//!
//! An [`Expression`] identifies columns by name, as its author does. `Expression::bind` resolves it
//! against a schema. The resulting JSON identifies columns by field id, and contains literals in
//! the JSON single-value serialization of the columns' types. Catalogs send this form to clients.
//! Only constants, tests, comparisons with literals, and combinations of them are supported.
//! Functions and transforms are not.
//!
//! The filter of a scan is an expression, too. It may also contain transforms, field ids and
//! functions ([`Expression::parse_filter`]).

mod bind;
mod parse;
mod term;

use serde_json::{Value, json};

pub use term::Term;

/// Maximum length of an expression, in bytes.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// Maximum number of literals in one set.
const LITERALS_MAX: usize = 1_000;
/// Maximum nesting of an expression, because clients parse it recursively.
const DEPTH_MAX: usize = 32;

/// A filter of rows, with columns by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// All rows (`true`) or no rows (`false`).
    Constant(bool),
    /// Rows that the operand does not select.
    Not(Box<Self>),
    /// Rows that both operands select.
    And(Box<Self>, Box<Self>),
    /// Rows that at least one operand selects.
    Or(Box<Self>, Box<Self>),
    /// Rows whose column passes a test.
    Test(Test, Term),
    /// Rows whose column has this relation to a literal.
    Compare(Comparison, Term, Value),
    /// Rows whose column is in a set of literals, or is not in it.
    Among(Membership, Term, Vec<Value>),
    /// Rows that match a predicate that only the client can evaluate. Contains the JSON of the
    /// predicate. Occurs only in filters of scans.
    Opaque(Value),
}

/// Limits of the filter of a scan.
#[derive(Debug, Clone, Copy)]
pub struct FilterLimits {
    /// Maximum length of the JSON, in bytes.
    pub bytes_max: usize,
    /// Maximum nesting.
    pub depth_max: usize,
    /// Maximum number of literals in all sets.
    pub literals_max: usize,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self { bytes_max: 1 << 20, depth_max: 64, literals_max: 100_000 }
    }
}

/// A test of a column's value without a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The value is null.
    IsNull,
    /// The value is not null.
    NotNull,
    /// The value is the floating point NaN.
    IsNan,
    /// The value is not the floating point NaN.
    NotNan,
}

/// A comparison of a column's value with a literal. Null differs from every literal, so `NotEq`
/// also selects rows whose column is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Less than the literal.
    Lt,
    /// Less than or equal to the literal.
    LtEq,
    /// Greater than the literal.
    Gt,
    /// Greater than or equal to the literal.
    GtEq,
    /// Equal to the literal.
    Eq,
    /// Not equal to the literal.
    NotEq,
    /// The value starts with the literal.
    StartsWith,
    /// The value does not start with the literal.
    NotStartsWith,
}

/// A test for membership in a set of literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// The value is in the set.
    In,
    /// The value is not in the set.
    NotIn,
}

impl Test {
    const ALL: [Self; 4] = [Self::IsNull, Self::NotNull, Self::IsNan, Self::NotNan];

    /// Returns the negated test, which selects exactly the other rows.
    pub(crate) fn negate(self) -> Self {
        match self {
            Self::IsNull => Self::NotNull,
            Self::NotNull => Self::IsNull,
            Self::IsNan => Self::NotNan,
            Self::NotNan => Self::IsNan,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::IsNull => "is-null",
            Self::NotNull => "not-null",
            Self::IsNan => "is-nan",
            Self::NotNan => "not-nan",
        }
    }
}

impl Comparison {
    const ALL: [Self; 8] = [
        Self::Lt,
        Self::LtEq,
        Self::Gt,
        Self::GtEq,
        Self::Eq,
        Self::NotEq,
        Self::StartsWith,
        Self::NotStartsWith,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Lt => "lt",
            Self::LtEq => "lt-eq",
            Self::Gt => "gt",
            Self::GtEq => "gt-eq",
            Self::Eq => "eq",
            Self::NotEq => "not-eq",
            Self::StartsWith => "starts-with",
            Self::NotStartsWith => "not-starts-with",
        }
    }

    /// Returns the negated comparison, in the two-valued logic of the reference implementation.
    /// `NotEq` and `NotStartsWith` select rows whose column is null. All other comparisons do not
    /// select these rows, so neither `Lt` nor its negation `GtEq` selects them.
    pub(crate) fn negate(self) -> Self {
        match self {
            Self::Lt => Self::GtEq,
            Self::LtEq => Self::Gt,
            Self::Gt => Self::LtEq,
            Self::GtEq => Self::Lt,
            Self::Eq => Self::NotEq,
            Self::NotEq => Self::Eq,
            Self::StartsWith => Self::NotStartsWith,
            Self::NotStartsWith => Self::StartsWith,
        }
    }

    /// Returns the comparison with both operands swapped. Returns `None` for
    /// comparisons that have no swapped form.
    pub(crate) fn swap(self) -> Option<Self> {
        match self {
            Self::Lt => Some(Self::Gt),
            Self::LtEq => Some(Self::GtEq),
            Self::Gt => Some(Self::Lt),
            Self::GtEq => Some(Self::LtEq),
            Self::Eq | Self::NotEq => Some(self),
            Self::StartsWith | Self::NotStartsWith => None,
        }
    }

    /// Whether the comparison applies only to strings.
    pub(crate) fn is_for_strings(self) -> bool {
        matches!(self, Self::StartsWith | Self::NotStartsWith)
    }
}

impl Membership {
    const ALL: [Self; 2] = [Self::In, Self::NotIn];

    /// Returns the negated test, which selects exactly the other rows.
    pub(crate) fn negate(self) -> Self {
        match self {
            Self::In => Self::NotIn,
            Self::NotIn => Self::In,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "not-in",
        }
    }
}

impl Expression {
    /// Returns the negation.
    fn negate(self) -> Self {
        match self {
            Self::Constant(all) => Self::Constant(!all),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Returns the conjunction, simplified if one side is constant.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(true), one) | (one, Self::Constant(true)) => one,
            (Self::Constant(false), _) | (_, Self::Constant(false)) => Self::Constant(false),
            (one, other) => Self::And(Box::new(one), Box::new(other)),
        }
    }

    /// Returns the disjunction, simplified if one side is constant.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(false), one) | (one, Self::Constant(false)) => one,
            (Self::Constant(true), _) | (_, Self::Constant(true)) => Self::Constant(true),
            (one, other) => Self::Or(Box::new(one), Box::new(other)),
        }
    }

    /// Returns JSON in which columns have names, in the shorter of the two forms of the
    /// specification. [`Expression::parse`] can read it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Constant(all) => json!(all),
            Self::Not(inner) => json!({ "type": "not", "child": inner.to_json() }),
            Self::And(left, right) => {
                json!({ "type": "and", "left": left.to_json(), "right": right.to_json() })
            }
            Self::Or(left, right) => {
                json!({ "type": "or", "left": left.to_json(), "right": right.to_json() })
            }
            Self::Test(test, term) => json!({ "type": test.name(), "term": term.to_json() }),
            Self::Compare(comparison, term, value) => {
                json!({ "type": comparison.name(), "term": term.to_json(), "value": value })
            }
            Self::Among(membership, term, values) => {
                json!({ "type": membership.name(), "term": term.to_json(), "values": values })
            }
            Self::Opaque(source) => source.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
