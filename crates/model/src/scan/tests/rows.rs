//! Generated rows and filters, and an evaluation of filters on single rows that shares no code with
//! the evaluators.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{COLUMNS, columns};
use crate::expression::{Comparison, Expression, Membership, Term, Test};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;
use crate::value::literal::Literal;

/// A row: the values of [`COLUMNS`], in their order.
pub(super) type Row = Vec<Option<Datum>>;

pub(super) fn type_of(column: usize) -> PrimitiveType {
    columns().primitive_type(COLUMNS[column].0).expect("a primitive column")
}

/// Returns values of a column. They are near to each other, and near the values at which the
/// results of transforms change.
pub(super) fn values_of(column: usize) -> Vec<Datum> {
    let integers = |values: &[i64]| values.iter().copied().map(Datum::Integer).collect();
    match type_of(column) {
        PrimitiveType::Boolean => vec![Datum::Boolean(false), Datum::Boolean(true)],
        PrimitiveType::Int => integers(&[-11, -10, -1, 0, 1, 9, 10, 19, i64::from(i32::MAX)]),
        PrimitiveType::Long => integers(&[-100, -1, 0, 1, 99, 1 << 40, i64::MAX]),
        PrimitiveType::Float | PrimitiveType::Double => {
            [-1.5, -0.0, 0.0, 1.0, 2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
                .into_iter()
                .map(Datum::Float)
                .collect()
        }
        PrimitiveType::Decimal { .. } => {
            [-1001, -1000, -1, 0, 1, 999, 1000].into_iter().map(Datum::Decimal).collect()
        }
        PrimitiveType::String => {
            ["", "a", "ab", "abc", "abcd", "abd", "b", "ä", "äöü", "\u{10ffff}\u{10ffff}x"]
                .into_iter()
                .map(Datum::string)
                .collect()
        }
        PrimitiveType::Binary => {
            [&[][..], &[0], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4], &[0xff, 0xff, 0xff]]
                .into_iter()
                .map(Datum::bytes)
                .collect()
        }
        PrimitiveType::Date => integers(&[-366, -365, -32, -31, -1, 0, 1, 30, 31, 365]),
        PrimitiveType::Uuid => [0, 1, u128::MAX].map(|id| Datum::Uuid(id.to_be_bytes())).into(),
        PrimitiveType::TimestampNs => times(1_000_000_000),
        _ => times(1_000_000),
    }
}

/// Returns points in time around the edges of hours, days, months and years.
fn times(per_second: i64) -> Vec<Datum> {
    let edges = [-31_536_000, -2_678_400, -86_400, -3600, 0, 3600, 86_400, 2_678_400];
    let near = |edge: i64| [edge * per_second - 1, edge * per_second, edge * per_second + 1];
    edges.into_iter().flat_map(near).map(Datum::Integer).collect()
}

pub(super) fn any_row() -> impl Strategy<Value = Row> {
    let value = |column| prop::option::weighted(0.8, prop::sample::select(values_of(column)));
    (0..COLUMNS.len()).map(value).collect::<Vec<_>>()
}

/// Returns any filter on [`COLUMNS`], as JSON.
pub(super) fn any_filter() -> impl Strategy<Value = Value> {
    any_predicate().prop_recursive(3, 8, 2, |inner| {
        let two = (prop::sample::select(vec!["and", "or"]), inner.clone(), inner.clone());
        prop_oneof![
            two.prop_map(|(kind, left, right)| json!({"type": kind, "left": left, "right": right})),
            inner.prop_map(|child| json!({"type": "not", "child": child})),
        ]
    })
}

fn any_predicate() -> impl Strategy<Value = Value> {
    (0..COLUMNS.len()).prop_flat_map(|column| {
        let name = COLUMNS[column].1;
        let comparable = prop::sample::select(values_of(column)).prop_map(move |value| {
            let value = if value.is_nan() { Datum::Float(7.0) } else { value };
            value.to_json(&type_of(column))
        });
        let odd = match type_of(column) {
            PrimitiveType::Int => vec![json!(0.5), json!(-10.5), json!(1_i64 << 40), json!(-1e30)],
            PrimitiveType::Float => vec![json!(1e300), json!(-1e300)],
            PrimitiveType::Decimal { .. } => vec![json!("0.005"), json!("-10.001"), json!("1e30")],
            _ => vec![],
        };
        let literal = if odd.is_empty() {
            comparable.boxed()
        } else {
            prop_oneof![4 => comparable, 1 => prop::sample::select(odd)].boxed()
        };
        let mut comparisons = vec!["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"];
        if type_of(column) == PrimitiveType::String {
            comparisons.extend(["starts-with", "not-starts-with"]);
        }
        let mut tests = vec!["is-null", "not-null"];
        if matches!(type_of(column), PrimitiveType::Float | PrimitiveType::Double) {
            tests.extend(["is-nan", "not-nan"]);
        }
        let sets = prop::sample::select(vec!["in", "not-in"]);
        prop_oneof![
            1 => prop::sample::select(tests)
                .prop_map(move |kind| json!({"type": kind, "term": name})),
            4 => (prop::sample::select(comparisons), literal.clone())
                .prop_map(move |(kind, value)| json!({"type": kind, "term": name, "value": value})),
            2 => (sets, prop::collection::vec(literal, 0..4))
                .prop_map(move |(kind, values)| json!({"type": kind, "term": name, "values": values})),
            1 => any_transformed(column),
        ]
    })
}

/// Returns a comparison of a transform of the column with a value of this transform.
fn any_transformed(column: usize) -> impl Strategy<Value = Value> {
    let transforms = transforms_of(column);
    let kinds = vec!["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"];
    let values = prop::sample::select(values_of(column));
    (prop::sample::select(transforms), prop::sample::select(kinds), values).prop_map(
        move |(transform, kind, value)| {
            let source = type_of(column);
            let term = Term::Transform(
                transform.clone(),
                Box::new(Term::Column(COLUMNS[column].1.to_owned())),
            );
            let result = transform.result_type(&source).expect("a type");
            match transform.apply(&source, &value).filter(|value| !value.is_nan()) {
                Some(value) => {
                    json!({"type": kind, "term": term.to_json(), "value": value.to_json(&result)})
                }
                None => json!({"type": "not-null", "term": term.to_json()}),
            }
        },
    )
}

/// Returns the transforms that a column supports.
pub(super) fn transforms_of(column: usize) -> Vec<Transform> {
    let all = [
        Transform::Identity,
        Transform::Bucket(3),
        Transform::Truncate(2),
        Transform::Truncate(10),
        Transform::Year,
        Transform::Month,
        Transform::Day,
        Transform::Hour,
    ];
    let supported = |it: &Transform| it.result_type(&type_of(column)).is_some();
    all.into_iter().filter(supported).collect()
}

/// The order of zeros with different signs, in which engines differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    /// `-0.0` equals `0.0`.
    Equal,
    /// `-0.0` is less than `0.0`.
    Ordered,
}

/// Whether a filter selects a row.
pub(super) fn selects(filter: &Expression, row: &Row, zeros: Zeros) -> bool {
    match filter {
        Expression::Constant(all) => *all,
        Expression::Not(inner) => !selects_positive(inner, row, zeros),
        other => selects_positive(other, row, zeros),
    }
}

fn selects_positive(filter: &Expression, row: &Row, zeros: Zeros) -> bool {
    match filter {
        Expression::Constant(_) | Expression::Not(_) => selects(filter, row, zeros),
        Expression::And(left, right) => selects(left, row, zeros) && selects(right, row, zeros),
        Expression::Or(left, right) => selects(left, row, zeros) || selects(right, row, zeros),
        Expression::Test(test, term) => {
            let (_, value) = evaluate(term, row);
            let is_nan = value.as_ref().is_some_and(Datum::is_nan);
            match test {
                Test::IsNull => value.is_none(),
                Test::NotNull => value.is_some(),
                Test::IsNan => is_nan,
                Test::NotNan => !is_nan,
            }
        }
        Expression::Compare(comparison, term, literal) => {
            let (primitive, value) = evaluate(term, row);
            compares(*comparison, &primitive, value.as_ref(), literal, zeros)
        }
        Expression::Among(membership, term, literals) => {
            let (primitive, value) = evaluate(term, row);
            let equals = |literal: &Value| {
                compares(Comparison::Eq, &primitive, value.as_ref(), literal, zeros)
            };
            literals.iter().any(equals) == (*membership == Membership::In)
        }
        Expression::Opaque(source) => panic!("not generated: {source}"),
    }
}

/// Replaces negations by negated predicates, in the two-valued logic of the specification: `not lt`
/// becomes `gt-eq`, which does not select nulls either.
pub(super) fn without_negations(filter: &Expression, negated: bool) -> Expression {
    let both = |left: &Expression, right: &Expression| {
        (Box::new(without_negations(left, negated)), Box::new(without_negations(right, negated)))
    };
    match filter {
        Expression::Not(inner) => without_negations(inner, !negated),
        Expression::And(left, right) | Expression::Or(left, right) => {
            let (left, right) = both(left, right);
            if matches!(filter, Expression::And(..)) == negated {
                Expression::Or(left, right)
            } else {
                Expression::And(left, right)
            }
        }
        Expression::Constant(all) => Expression::Constant(*all != negated),
        other if !negated => other.clone(),
        Expression::Test(test, term) => Expression::Test(test.negate(), term.clone()),
        Expression::Compare(comparison, term, value) => {
            Expression::Compare(comparison.negate(), term.clone(), value.clone())
        }
        Expression::Among(membership, term, values) => {
            Expression::Among(membership.negate(), term.clone(), values.clone())
        }
        Expression::Opaque(source) => panic!("not generated: {source}"),
    }
}

/// Returns the type and the value of a term in a row.
fn evaluate(term: &Term, row: &Row) -> (PrimitiveType, Option<Datum>) {
    match term {
        Term::Column(name) => {
            let column = COLUMNS.iter().position(|(_, other, _)| other == name);
            let column = column.expect("a column");
            (type_of(column), row[column].clone())
        }
        Term::Transform(transform, inner) => {
            let (source, value) = evaluate(inner, row);
            let result = transform.result_type(&source).expect("a type");
            let value = value.map(|value| transform.apply(&source, &value).expect("a value"));
            (result, value)
        }
        Term::Field(id) => panic!("not generated: {id}"),
    }
}

fn compares(
    comparison: Comparison,
    primitive: &PrimitiveType,
    value: Option<&Datum>,
    literal: &Value,
    zeros: Zeros,
) -> bool {
    let is_negative = matches!(comparison, Comparison::NotEq | Comparison::NotStartsWith);
    let Some(value) = value else { return is_negative };
    let order = order(primitive, value, literal, zeros);
    let starts = || match (value, literal) {
        (Datum::String(value), Value::String(literal)) => value.starts_with(literal.as_str()),
        _ => panic!("starts-with is for strings"),
    };
    match comparison {
        Comparison::Lt => order == Some(Ordering::Less),
        Comparison::LtEq => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Gt => order == Some(Ordering::Greater),
        Comparison::GtEq => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::Eq => order == Some(Ordering::Equal),
        Comparison::NotEq => order != Some(Ordering::Equal),
        Comparison::StartsWith => starts(),
        Comparison::NotStartsWith => !starts(),
    }
}

/// Compares a value with a literal. `None`: the value is NaN.
fn order(
    primitive: &PrimitiveType,
    value: &Datum,
    literal: &Value,
    zeros: Zeros,
) -> Option<Ordering> {
    let number = |literal: &Value| match literal {
        Value::String(text) if text.contains("nfinity") => {
            Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    match value {
        Datum::Float(value) => {
            let literal = number(literal).expect("a number");
            match zeros {
                Zeros::Ordered if !value.is_nan() => Some(value.total_cmp(&literal)),
                _ => value.partial_cmp(&literal),
            }
        }
        Datum::Decimal(unscaled) => {
            // The generated decimals are small enough for this to be exact.
            (*unscaled as f64).partial_cmp(&(number(literal).expect("a number") * 100.0))
        }
        Datum::Integer(value) if literal.is_f64() => {
            (*value as f64).partial_cmp(&literal.as_f64().expect("a number"))
        }
        Datum::Integer(value) if literal.is_i64() => Some(value.cmp(&literal.as_i64()?)),
        value => match Literal::parse(primitive, literal) {
            Some(Literal::Value(literal)) => value.compare(&literal),
            other => panic!("{literal} is not exact: {other:?}"),
        },
    }
}
