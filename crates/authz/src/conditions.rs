//! Determines which parts of a request the conditions of a policy use. Reads the conditions in
//! Cedar's JSON form.

use cedar_policy::Policy;
use serde_json::Value;

/// A part of a request that a condition uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionUse<'c> {
    /// A whole variable. All of its parts may matter.
    Variable(&'c str),
    /// An attribute of a variable: its value (`.`) or its presence (`has`). `None` if its name is
    /// computed.
    Attribute(&'c str, Option<&'c str>),
    /// A tag of the resource: its value (`getTag`) or its presence (`hasTag`). `None` if its key is
    /// computed.
    Tag(Option<&'c str>),
    /// The position of the resource: whether it equals an entity that the policy names (`==`), or
    /// is inside it (`in`).
    Path,
    /// Type of the resource.
    Kind,
}

/// The conditions of a policy.
pub(super) struct Conditions(Option<Value>);

impl Conditions {
    /// Reads the conditions of a policy.
    pub(super) fn of(policy: &Policy) -> Self {
        if !policy.has_non_scope_constraint() {
            return Self(Some(Value::Null));
        }
        let json = policy.to_json().ok();
        Self(json.and_then(|mut json| json.get_mut("conditions").map(Value::take)))
    }

    /// Returns the uses, with repetitions. `None` if the conditions cannot be read.
    pub(super) fn uses(&self) -> Option<Vec<ConditionUse<'_>>> {
        let mut uses = Vec::new();
        add(&mut uses, self.0.as_ref()?);
        Some(uses)
    }
}

fn add<'c>(uses: &mut Vec<ConditionUse<'c>>, expression: &'c Value) {
    match expression {
        Value::Array(parts) => parts.iter().for_each(|part| add(uses, part)),
        Value::Object(members) => {
            for (operator, operands) in members {
                add_operation(uses, operator, operands);
            }
        }
        _ => {}
    }
}

fn add_operation<'c>(uses: &mut Vec<ConditionUse<'c>>, operator: &str, operands: &'c Value) {
    let left = operands.pointer("/left/Var").and_then(Value::as_str);
    match (operator, left) {
        ("Var", _) => uses.push(ConditionUse::Variable(operands.as_str().unwrap_or_default())),
        ("." | "has", Some(variable)) => {
            let attribute = operands.get("attr").and_then(Value::as_str);
            uses.push(ConditionUse::Attribute(variable, attribute));
        }
        ("==" | "in", Some("resource")) => {
            uses.push(ConditionUse::Path);
            operands.get("right").into_iter().for_each(|right| add(uses, right));
        }
        ("is", Some("resource")) => {
            uses.push(if operands.get("in").is_some() {
                ConditionUse::Path
            } else {
                ConditionUse::Kind
            });
            operands.get("in").into_iter().for_each(|operand| add(uses, operand));
        }
        ("hasTag" | "getTag", Some("resource")) => {
            uses.push(ConditionUse::Tag(operands.pointer("/right/Value").and_then(Value::as_str)));
            operands.get("right").into_iter().for_each(|right| add(uses, right));
        }
        // The parts of a constant are not expressions.
        ("Value", _) => {}
        // The keys are names that the policy chooses, not operators.
        ("Record", _) => {
            let values = operands.as_object().into_iter().flat_map(|record| record.values());
            values.for_each(|value| add(uses, value));
        }
        _ => add(uses, operands),
    }
}
