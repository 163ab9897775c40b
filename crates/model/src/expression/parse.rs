//! Parses expressions from both JSON forms of the specification, with columns by name.
//!
//! Unknown members are errors, so that no part of a client's expression is silently ignored.

use serde_json::{Map, Value};

use super::{
    Comparison, DEPTH_MAX, EXPRESSION_BYTES_MAX, Expression, LITERALS_MAX, Membership, Term, Test,
};
use crate::members::{brief, object};
use crate::refusal::Refusal;

mod filter;

impl Expression {
    /// Parses JSON. Simplifies subexpressions that are always true or always false.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return refuse(format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes"));
        }
        let json = serde_json::from_str(text)
            .map_err(|error| Refusal::invalid(format!("Cannot parse expression: {error}")))?;
        Self::from_json(&json, DEPTH_MAX)
    }

    fn from_json(json: &Value, depth: usize) -> Result<Self, Refusal> {
        let Some(depth) = depth.checked_sub(1) else {
            return refuse(format!("an expression is nested at most {DEPTH_MAX} deep"));
        };
        if let Value::Bool(all) = json {
            return Ok(Self::Constant(*all));
        }
        let members = object("expression", json)?;
        let Some(type_name) = members.get("type").and_then(Value::as_str) else {
            return refuse(format!("expected a type in {}", brief(json)));
        };
        let inner = |name| Self::from_json(member(members, name)?, depth);
        match type_name {
            "true" | "false" => {
                only(members, &["type"])?;
                Ok(Self::Constant(type_name == "true"))
            }
            "not" => {
                only(members, &["type", "child"])?;
                Ok(inner("child")?.negate())
            }
            "and" => {
                only(members, &["type", "left", "right"])?;
                Ok(inner("left")?.and(inner("right")?))
            }
            "or" => {
                only(members, &["type", "left", "right"])?;
                Ok(inner("left")?.or(inner("right")?))
            }
            type_name => predicate(members, type_name),
        }
    }
}

/// The type of a predicate, as named in the JSON.
#[derive(Clone, Copy)]
enum PredicateType {
    Test(Test),
    Compare(Comparison),
    Among(Membership),
}

impl PredicateType {
    fn from_name(name: &str) -> Option<Self> {
        let test = Test::ALL.into_iter().find(|it| it.name() == name).map(Self::Test);
        let comparison = Comparison::ALL.into_iter().find(|it| it.name() == name);
        let membership = Membership::ALL.into_iter().find(|it| it.name() == name);
        test.or(comparison.map(Self::Compare)).or(membership.map(Self::Among))
    }
}

fn predicate(members: &Map<String, Value>, type_name: &str) -> Result<Expression, Refusal> {
    match PredicateType::from_name(type_name) {
        Some(PredicateType::Test(test)) => {
            Ok(Expression::Test(test, operand(members, "child", &[])?))
        }
        Some(PredicateType::Compare(comparison)) => {
            let name = if members.contains_key("term") { "value" } else { "right" };
            let column = operand(members, "left", &[name])?;
            let value = literal(member(members, name)?)?;
            if comparison.is_for_strings() && !value.is_string() {
                return refuse(format!("expected a string as the value of {type_name}"));
            }
            Ok(Expression::Compare(comparison, column, value))
        }
        Some(PredicateType::Among(membership)) => {
            let column = operand(members, "child", &["values"])?;
            let values = literals(member(members, "values")?)?;
            Ok(Expression::Among(membership, column, values))
        }
        None => refuse(format!("there is no expression of type {}", brief(type_name))),
    }
}

/// Returns the column of a predicate: the member `term` or, in the newer form of the specification,
/// the member `newer`. Refuses members other than this one, `type` and those in `others`.
fn operand(members: &Map<String, Value>, newer: &str, others: &[&str]) -> Result<Term, Refusal> {
    let name = if members.contains_key("term") { "term" } else { newer };
    only(members, &[&["type", name], others].concat())?;
    column(member(members, name)?).map(Term::Column)
}

fn column(json: &Value) -> Result<String, Refusal> {
    let name = match json {
        Value::String(name) => name,
        Value::Object(members) if members.get("type") == Some(&Value::from("reference")) => {
            if members.contains_key("id") {
                return refuse("columns are identified by name here, not by id");
            }
            let name = if members.contains_key("term") { "term" } else { "name" };
            only(members, &["type", name])?;
            match member(members, name)? {
                Value::String(name) => name,
                other => return refuse(format!("expected a column's name, got {}", brief(other))),
            }
        }
        other => {
            return refuse(format!(
                "expected a column's name, not {}: functions and transforms are not supported",
                brief(other)
            ));
        }
    };
    if name.is_empty() {
        return refuse("the name of a column is empty");
    }
    Ok(name.clone())
}

/// Returns the value of a literal, which may be wrapped in an object. The column determines the
/// type of the literal, so the member `data-type` is ignored.
fn literal(json: &Value) -> Result<Value, Refusal> {
    let value = match json {
        Value::Object(members) if members.get("type") == Some(&Value::from("literal")) => {
            only(members, &["type", "value", "data-type"])?;
            member(members, "value")?
        }
        other => other,
    };
    match value {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
        Value::Null => refuse("a value cannot be compared with null: use is-null or not-null"),
        other => refuse(format!("expected a literal, got {}", brief(other))),
    }
}

fn literals(json: &Value) -> Result<Vec<Value>, Refusal> {
    let list = match json {
        Value::Object(members) if members.get("type") == Some(&Value::from("literals")) => {
            only(members, &["type", "values", "data-type"])?;
            member(members, "values")?
        }
        other => other,
    };
    match list {
        Value::Array(values) if (1..=LITERALS_MAX).contains(&values.len()) => {
            values.iter().map(literal).collect()
        }
        Value::Array(values) => {
            refuse(format!("a set has 1 to {LITERALS_MAX} literals, not {}", values.len()))
        }
        other => refuse(format!("expected a list of literals, got {}", brief(other))),
    }
}

fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a Value, Refusal> {
    members.get(name).ok_or_else(|| {
        let whole = Value::Object(members.clone());
        Refusal::invalid(format!("Cannot parse expression: missing {name} in {}", brief(whole)))
    })
}

/// Refuses members that are not in `names`.
fn only(members: &Map<String, Value>, names: &[&str]) -> Result<(), Refusal> {
    match members.keys().find(|key| !names.contains(&key.as_str())) {
        None => Ok(()),
        Some(other) => refuse(format!(
            "unexpected {} in an expression of type {}",
            brief(other),
            members.get("type").map(brief).unwrap_or_default()
        )),
    }
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T, Refusal> {
    Err(Refusal::invalid(format!("Cannot parse expression: {what}")))
}
