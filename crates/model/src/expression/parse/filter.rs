//! Parses the filter of a scan. It differs from the row filter of a policy: its limits are wider,
//! its predicates may have transforms, field ids and functions, a set may be empty, and unknown
//! members are ignored.

use serde_json::{Map, Value};

use super::{PredicateType, literal, member, refuse};
use crate::expression::{Comparison, Expression, FilterLimits, Membership, Term};
use crate::members::{brief, object};
use crate::refusal::Refusal;

impl Expression {
    /// Parses the filter of a scan. Simplifies subexpressions that are always true or always false.
    pub fn parse_filter(text: &str, limits: &FilterLimits) -> Result<Self, Refusal> {
        if text.len() > limits.bytes_max {
            return refuse(format!("a filter has at most {} bytes", limits.bytes_max));
        }
        let json = serde_json::from_str(text)
            .map_err(|error| Refusal::invalid(format!("Cannot parse expression: {error}")))?;
        let mut parser = FilterParser { limits, literals: 0 };
        parser.parse(&json, limits.depth_max)
    }
}

struct FilterParser<'a> {
    limits: &'a FilterLimits,
    /// Number of literals in all sets that were parsed so far.
    literals: usize,
}

impl FilterParser<'_> {
    fn parse(&mut self, json: &Value, depth: usize) -> Result<Expression, Refusal> {
        let Some(depth) = depth.checked_sub(1) else {
            return refuse(format!("a filter is nested at most {} deep", self.limits.depth_max));
        };
        if let Value::Bool(all) = json {
            return Ok(Expression::Constant(*all));
        }
        let members = object("expression", json)?;
        let Some(type_name) = members.get("type").and_then(Value::as_str) else {
            return refuse(format!("expected a type in {}", brief(json)));
        };
        match type_name {
            "true" | "false" => Ok(Expression::Constant(type_name == "true")),
            "literal" => match member(members, "value")? {
                Value::Bool(all) => Ok(Expression::Constant(*all)),
                other => refuse(format!("expected true or false, got {}", brief(other))),
            },
            "not" => Ok(self.parse(member(members, "child")?, depth)?.negate()),
            "and" => {
                let left = self.parse(member(members, "left")?, depth)?;
                Ok(left.and(self.parse(member(members, "right")?, depth)?))
            }
            "or" => {
                let left = self.parse(member(members, "left")?, depth)?;
                Ok(left.or(self.parse(member(members, "right")?, depth)?))
            }
            // A call of a function with a boolean result, which only the client can evaluate.
            "apply" => Ok(Expression::Opaque(json.clone())),
            type_name => self.predicate(json, members, type_name),
        }
    }

    fn predicate(
        &mut self,
        json: &Value,
        members: &Map<String, Value>,
        type_name: &str,
    ) -> Result<Expression, Refusal> {
        let opaque = || Expression::Opaque(json.clone());
        match PredicateType::from_name(type_name) {
            Some(PredicateType::Test(test)) => {
                let term = Term::parse(first_of(members, "child")?)?;
                Ok(term.map_or_else(opaque, |term| Expression::Test(test, term)))
            }
            Some(PredicateType::Compare(comparison)) => {
                Ok(compare(members, comparison)?.unwrap_or_else(opaque))
            }
            Some(PredicateType::Among(membership)) => {
                let values = self.literals(member(members, "values")?)?;
                let Some(term) = Term::parse(first_of(members, "child")?)? else {
                    return Ok(opaque());
                };
                if values.is_empty() {
                    return Ok(Expression::Constant(membership == Membership::NotIn));
                }
                Ok(Expression::Among(membership, term, values))
            }
            None => refuse(format!("there is no expression of type {}", brief(type_name))),
        }
    }

    fn literals(&mut self, json: &Value) -> Result<Vec<Value>, Refusal> {
        let list = match json {
            Value::Object(members) => member(members, "values")?,
            other => other,
        };
        let Value::Array(values) = list else {
            return refuse(format!("expected a list of literals, got {}", brief(list)));
        };
        self.literals = self.literals.saturating_add(values.len());
        if self.literals > self.limits.literals_max {
            return refuse(format!("a filter has at most {} literals", self.limits.literals_max));
        }
        values.iter().map(literal).collect()
    }
}

/// Returns the operand of a predicate: the member `term` or, in the newer form of the
/// specification, the member `newer`.
fn first_of<'a>(members: &'a Map<String, Value>, newer: &str) -> Result<&'a Value, Refusal> {
    match members.get("term") {
        Some(term) => Ok(term),
        None => member(members, newer),
    }
}

/// Parses a comparison. `None` if only the client can evaluate it, for example because it compares
/// two columns.
fn compare(
    members: &Map<String, Value>,
    comparison: Comparison,
) -> Result<Option<Expression>, Refusal> {
    if let Some(term) = members.get("term") {
        let value = literal(member(members, "value")?)?;
        let term = Term::parse(term)?;
        return Ok(term.map(|term| Expression::Compare(comparison, term, value)));
    }
    let (left, right) = (member(members, "left")?, member(members, "right")?);
    let (comparison, term, value) = match (is_literal(left), is_literal(right)) {
        (false, true) => (Some(comparison), left, right),
        (true, false) => (comparison.swap(), right, left),
        _ => return Ok(None),
    };
    let value = literal(value)?;
    let parts = comparison.zip(Term::parse(term)?);
    Ok(parts.map(|(comparison, term)| Expression::Compare(comparison, term, value)))
}

fn is_literal(json: &Value) -> bool {
    match json {
        Value::Object(members) => members.get("type").and_then(Value::as_str) == Some("literal"),
        _ => true,
    }
}
