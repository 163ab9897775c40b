//! Expressions: which rows of a table are meant (`format/expressions-spec.md` of Apache Iceberg).
//!
//! An [`Expression`] calls columns by name, as people write it. Bound to a schema it becomes JSON that calls
//! them by field id, with literals in the JSON single-value serialization of the columns' types: what a
//! catalog tells its clients. Only constants, tests, comparisons with literals and what is put together of
//! them can be said; no functions and no transforms.

mod bind;
mod parse;

use serde_json::{Value, json};

/// The bytes that an expression's text may have.
pub const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// The literals that one set may have.
const LITERALS_MAX: usize = 1_000;
/// How deep an expression may be nested: clients read it recursively.
const DEPTH_MAX: usize = 32;

/// Which rows are meant, with columns by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// All rows, or none.
    Constant(bool),
    /// Those that the other does not mean.
    Not(Box<Self>),
    /// Those that both mean.
    And(Box<Self>, Box<Self>),
    /// Those that either means.
    Or(Box<Self>, Box<Self>),
    /// Those whose column passes a test.
    Test(Test, String),
    /// Those whose column compares so to a literal.
    Compare(Comparison, String, Value),
    /// Those whose column is one of some literals, or none of them.
    Among(Membership, String, Vec<Value>),
}

/// A test of a column's value alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// It is null.
    IsNull,
    /// It is not null.
    NotNull,
    /// It is a floating point number's NaN.
    IsNan,
    /// It is not.
    NotNan,
}

/// A comparison of a column's value with a literal. Null equals nothing here but null: `NotEq` means rows
/// whose column is null, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Less.
    Lt,
    /// Less or equal.
    LtEq,
    /// Greater.
    Gt,
    /// Greater or equal.
    GtEq,
    /// Equal.
    Eq,
    /// Not equal.
    NotEq,
    /// The literal is a prefix of it.
    StartsWith,
    /// The literal is no prefix of it.
    NotStartsWith,
}

/// Whether a column's value is one of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// It is one of them.
    In,
    /// It is none of them.
    NotIn,
}

impl Test {
    const ALL: [Self; 4] = [Self::IsNull, Self::NotNull, Self::IsNan, Self::NotNan];

    fn word(self) -> &'static str {
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

    fn word(self) -> &'static str {
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

    /// Whether it is about text alone.
    fn is_about_prefixes(self) -> bool {
        matches!(self, Self::StartsWith | Self::NotStartsWith)
    }
}

impl Membership {
    const ALL: [Self; 2] = [Self::In, Self::NotIn];

    fn word(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "not-in",
        }
    }
}

impl Expression {
    /// The negation.
    fn negated(self) -> Self {
        match self {
            Self::Constant(all) => Self::Constant(!all),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(true), one) | (one, Self::Constant(true)) => one,
            (Self::Constant(false), _) | (_, Self::Constant(false)) => Self::Constant(false),
            (one, other) => Self::And(Box::new(one), Box::new(other)),
        }
    }

    /// Either.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(false), one) | (one, Self::Constant(false)) => one,
            (Self::Constant(true), _) | (_, Self::Constant(true)) => Self::Constant(true),
            (one, other) => Self::Or(Box::new(one), Box::new(other)),
        }
    }

    /// As JSON with columns by name, in the shorter of the two forms that there are: what
    /// [`Expression::parse`] reads.
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
            Self::Test(test, column) => json!({ "type": test.word(), "term": column }),
            Self::Compare(comparison, column, value) => {
                json!({ "type": comparison.word(), "term": column, "value": value })
            }
            Self::Among(membership, column, values) => {
                json!({ "type": membership.word(), "term": column, "values": values })
            }
        }
    }
}

#[cfg(test)]
mod tests;
