//! Read restrictions: which rows of a table somebody may read, and what is shown of its columns
//! (`ReadRestrictions` in the REST catalog specification).
//!
//! A [`ReadRule`] is what one permission to read says, with columns by name. [`ReadRules`] are those of all
//! permissions that somebody has for a table; together with its schema they become [`ReadRestrictions`],
//! with columns by field id, for a client to apply.
//!
//! **How they add up.** Every row that is shown is shown as at least one of the permissions alone would
//! show it, or less. So the filters are combined by *or*, and a column is masked for all rows if any of the
//! permissions that the rows come from masks it, the stricter way. A permission that shows nothing that
//! another does not show as well has no say; so somebody who may read everything is not held up by what
//! else they may do. `docs/adr/0014-read-restrictions.md` tells why.

mod columns;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::expression::Expression;
use super::mask::Mask;
use super::schema::{Schema, SchemaIndex};
pub use columns::parse_masks;

/// What one permission to read says. One that says nothing is no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRule {
    /// Which permission: the id of the policy.
    pub policy: String,
    /// The rows that may be read; all if there is none.
    pub filter: Option<Expression>,
    /// How columns are shown, by their names; those that are not here as they are.
    pub masks: BTreeMap<String, Mask>,
}

/// What all permissions say that somebody has to read a table, none of which is without a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRules {
    rules: Vec<Arc<ReadRule>>,
    key: RulesKey,
}

/// Tells rules from all others, by what they say.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RulesKey([u8; 16]);

/// What a client has to apply when it reads a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRestrictions {
    /// The rows that may be read, with columns by field id; all if there is none.
    pub filter: Option<Value>,
    /// How columns are shown, by field id; those that are not here as they are.
    pub masks: BTreeMap<i32, Mask>,
    /// The filters that this schema's rows cannot be told apart by, which show no row, and why.
    pub inexpressible: Vec<Problem>,
}

/// What is wrong with a rule, for a table as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whose rule.
    pub policy: String,
    /// What is wrong.
    pub reason: String,
}

impl ReadRule {
    /// What it says, as JSON with columns by name: without a filter, `row-filter` is `true`.
    pub fn to_json(&self) -> Value {
        let filter = self.filter.as_ref().map_or(json!(true), Expression::to_json);
        let masks: serde_json::Map<_, _> =
            self.masks.iter().map(|(name, mask)| (name.clone(), json!(mask.word()))).collect();
        json!({ "row-filter": filter, "column-masks": masks })
    }
}

impl ReadRules {
    /// These rules; without any, no row may be read. They are the same as others that say the same, whoever
    /// says it.
    pub fn new(rules: Vec<Arc<ReadRule>>) -> Self {
        let mut said: Vec<_> = rules.iter().map(|rule| rule.to_json().to_string()).collect();
        said.sort();
        said.dedup();
        let mut hash = Sha256::new();
        for one in said {
            hash.update((one.len() as u64).to_be_bytes());
            hash.update(one);
        }
        let digest = hash.finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self { rules, key: RulesKey(key) }
    }

    /// Tells them from all others.
    pub fn key(&self) -> RulesKey {
        self.key
    }

    /// One by one.
    pub fn rules(&self) -> &[Arc<ReadRule>] {
        &self.rules
    }

    /// What they come to for a table with this schema. A mask that does not fit it is a problem: the table
    /// must not be shown then.
    pub fn resolve(&self, schema: &Schema) -> Result<ReadRestrictions, Problem> {
        let problem = |reason| Problem { policy: String::new(), reason };
        let index = schema.index().map_err(|refusal| problem(refusal.to_string()))?;
        let mut resolved = Vec::new();
        let mut inexpressible = Vec::new();
        for rule in &self.rules {
            let (one, unsaid) = Resolved::of(rule, &index)?;
            inexpressible.extend(unsaid);
            resolved.push(one);
        }
        let chosen = not_outdone(resolved, &index);
        let mut masks = BTreeMap::new();
        for (id, mask) in chosen.iter().flat_map(|one| &one.masks) {
            add_mask(&mut masks, *id, *mask);
        }
        let masks = outermost(masks, &index);
        let mut filters: Vec<_> = Vec::new();
        for one in chosen {
            if !filters.contains(&one.filter) {
                filters.push(one.filter);
            }
        }
        Ok(ReadRestrictions { filter: any_of(&filters), masks, inexpressible })
    }
}

impl ReadRestrictions {
    /// The `read-restrictions` of a `LoadTableResult`.
    pub fn to_json(&self) -> Value {
        let mut members = serde_json::Map::new();
        if let Some(filter) = &self.filter {
            members.insert("required-row-filter".to_owned(), filter.clone());
        }
        if !self.masks.is_empty() {
            let masks = self.masks.iter();
            let actions: Vec<_> =
                masks.map(|(id, mask)| json!({ "action": mask.word(), "field-id": id })).collect();
            members.insert("required-column-projections".to_owned(), actions.into());
        }
        members.into()
    }
}

/// A rule, for a table with a certain schema.
#[derive(Debug, Clone, PartialEq)]
struct Resolved {
    /// `true` if it has none.
    filter: Value,
    masks: BTreeMap<i32, Mask>,
}

impl Resolved {
    /// The rule with columns by field id, and what of its filter cannot be said.
    fn of(rule: &ReadRule, schema: &SchemaIndex<'_>) -> Result<(Self, Option<Problem>), Problem> {
        let problem = |reason| Problem { policy: rule.policy.clone(), reason };
        let mut masks = BTreeMap::new();
        for (name, mask) in &rule.masks {
            let id = columns::masked(schema, name, *mask).map_err(problem)?;
            add_mask(&mut masks, id, *mask);
        }
        let bound = rule.filter.as_ref().map(|filter| filter.bind(schema));
        let (filter, unsaid) = match bound {
            None => (json!(true), None),
            Some(Ok(filter)) => (filter, None),
            // Nothing of it is kept: half a filter may show more than the whole.
            Some(Err(reason)) => (json!(false), Some(problem(reason))),
        };
        Ok((Self { filter, masks }, unsaid))
    }

    /// Whether it shows all that the other shows, and all of it at least as well.
    fn outdoes(&self, other: &Self, schema: &SchemaIndex<'_>) -> bool {
        let rows = self.filter == json!(true)
            || other.filter == json!(false)
            || self.filter == other.filter;
        // The fields round a masked one hide what is in them, too.
        let hides = |id: i32, mask: Mask| {
            let round = schema.ancestors(id).map(|parent| parent.field.id);
            let theirs = other.masks.get(&id).is_some_and(|theirs| theirs.is_as_strict_as(mask));
            theirs || round.into_iter().any(|id| other.masks.contains_key(&id))
        };
        let columns = self.masks.iter().all(|(id, mask)| hides(*id, *mask));
        rows && (columns || other.filter == json!(false) && self.filter != json!(false))
    }
}

/// Without those that another one outdoes; one of those that outdo each other.
fn not_outdone(mut rules: Vec<Resolved>, schema: &SchemaIndex<'_>) -> Vec<Resolved> {
    let mut at = 0;
    while at < rules.len() {
        let outdone = |(n, other): (usize, &Resolved)| n != at && other.outdoes(&rules[at], schema);
        if rules.iter().enumerate().any(outdone) {
            rules.remove(at);
        } else {
            at += 1;
        }
    }
    rules
}

fn add_mask(masks: &mut BTreeMap<i32, Mask>, id: i32, mask: Mask) {
    masks.entry(id).and_modify(|before| *before = before.stricter(mask)).or_insert(mask);
}

/// Without masks of what is in a field that is masked as a whole, which readers could not put together.
fn outermost(masks: BTreeMap<i32, Mask>, schema: &SchemaIndex<'_>) -> BTreeMap<i32, Mask> {
    let all = masks.clone();
    let inside = |id: i32| schema.ancestors(id).any(|parent| all.contains_key(&parent.field.id));
    masks.into_iter().filter(|(id, _)| !inside(*id)).collect()
}

/// The filter for the rows of any of these; none for all rows. Halves are put together of halves, so that
/// clients, which read it recursively, need not go deep.
fn any_of(filters: &[Value]) -> Option<Value> {
    match filters {
        [] => Some(json!(false)),
        [one] => (*one != json!(true)).then(|| one.clone()),
        many => {
            let (left, right) = many.split_at(many.len() / 2);
            let (left, right) = (any_of(left)?, any_of(right)?);
            Some(json!({ "type": "or", "left": left, "right": right }))
        }
    }
}

impl fmt::Display for RulesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RulesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RulesKey({self})")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}: {}", self.policy, self.reason)
    }
}

#[cfg(test)]
mod tests;
