//! Read restrictions: the rows of a table that a principal may read, and the masks of its columns
//! (`ReadRestrictions` in the REST catalog specification).
//!
//! A [`ReadRule`] is the restriction of one permission to read. It refers to columns by name.
//! [`ReadRules`] are the restrictions of all permissions that a principal has for a table. They are
//! resolved against the table's schema. The result is a [`ReadRestrictions`], which refers to
//! columns by field id. The client applies the restrictions.
//!
//! **Combination.** Every row that the result shows must also be visible through one of the
//! permissions alone, with at least the same values. A permission that shows nothing beyond another
//! permission is ignored. So a principal that may read everything is not restricted by its other
//! permissions. The filters of the remaining permissions are combined by *or*. A column is masked
//! in all rows if any of these permissions masks it. If they mask a column differently, the result
//! has a mask that shows only what all of their masks show. The reasons are in
//! `docs/adr/0014-read-restrictions.md`.

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

/// The restriction of one permission to read. A permission without restriction has no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRule {
    /// The id of the permission's policy.
    pub policy: String,
    /// Filter for the rows that may be read. `None` if all rows may be read.
    pub filter: Option<Expression>,
    /// Masks by column name. Columns without a mask are shown unchanged.
    pub masks: BTreeMap<String, Mask>,
}

/// The rules of all permissions of a principal to read a table. Used only if each of these
/// permissions has a rule. A permission without a rule would show the whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRules {
    rules: Vec<Arc<ReadRule>>,
    key: RulesKey,
}

/// Content hash of a set of rules; equal for rules with equal content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RulesKey([u8; 16]);

/// The restrictions that a client must apply when it reads a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRestrictions {
    /// Filter for the rows that may be read, with columns by field id. `None` if all rows may be
    /// read.
    pub filter: Option<Value>,
    /// Masks by field id. Fields without a mask are shown unchanged.
    pub masks: BTreeMap<i32, Mask>,
    /// Filters that do not apply to this schema, and the reasons. Such a filter selects no row.
    pub inexpressible: Vec<Problem>,
}

/// A problem of a rule with the current schema of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The policy of the rule.
    pub policy: String,
    /// The description of the problem.
    pub reason: String,
}

impl ReadRule {
    /// Returns the rule as JSON with columns by name. Without a filter, `row-filter` is `true`.
    pub fn to_json(&self) -> Value {
        let filter = self.filter.as_ref().map_or(json!(true), Expression::to_json);
        let masks: serde_json::Map<_, _> =
            self.masks.iter().map(|(name, mask)| (name.clone(), json!(mask.name()))).collect();
        json!({ "row-filter": filter, "column-masks": masks })
    }
}

impl ReadRules {
    /// Combines rules. If `rules` is empty, no row may be read. The key depends only on the content
    /// of the rules, not on the policies that contain them.
    pub fn new(rules: Vec<Arc<ReadRule>>) -> Self {
        let mut rules_json: Vec<_> = rules.iter().map(|rule| rule.to_json().to_string()).collect();
        rules_json.sort();
        rules_json.dedup();
        let mut hash = Sha256::new();
        for one in rules_json {
            hash.update((one.len() as u64).to_be_bytes());
            hash.update(one);
        }
        let digest = hash.finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self { rules, key: RulesKey(key) }
    }

    /// Returns the content hash.
    pub fn key(&self) -> RulesKey {
        self.key
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[Arc<ReadRule>] {
        &self.rules
    }

    /// Resolves the rules against a schema. Errors if a mask does not apply to the schema. In this
    /// case, the server must not return the table.
    pub fn resolve(&self, schema: &Schema) -> Result<ReadRestrictions, Problem> {
        let problem = |reason| Problem { policy: String::new(), reason };
        let index = schema.index().map_err(|refusal| problem(refusal.to_string()))?;
        let mut resolved = Vec::new();
        let mut inexpressible = Vec::new();
        for rule in &self.rules {
            let (one, filter_problem) = ResolvedRule::of(rule, &index)?;
            inexpressible.extend(filter_problem);
            resolved.push(one);
        }
        let effective = without_redundant(resolved, &index);
        let mut masks = BTreeMap::new();
        for (id, mask) in effective.iter().flat_map(|one| &one.masks) {
            add_mask(&mut masks, *id, *mask);
        }
        let masks = without_nested_masks(masks, &index);
        let mut filters: Vec<_> = Vec::new();
        for one in effective {
            if !filters.contains(&one.filter) {
                filters.push(one.filter);
            }
        }
        Ok(ReadRestrictions { filter: any_of(&filters), masks, inexpressible })
    }
}

impl ReadRestrictions {
    /// Returns the `read-restrictions` of a `LoadTableResult`.
    pub fn to_json(&self) -> Value {
        let mut members = serde_json::Map::new();
        if let Some(filter) = &self.filter {
            members.insert("required-row-filter".to_owned(), filter.clone());
        }
        if !self.masks.is_empty() {
            let masks = self.masks.iter();
            let actions: Vec<_> =
                masks.map(|(id, mask)| json!({ "action": mask.name(), "field-id": id })).collect();
            members.insert("required-column-projections".to_owned(), actions.into());
        }
        members.into()
    }
}

/// A rule resolved against a schema.
#[derive(Debug, Clone, PartialEq)]
struct ResolvedRule {
    /// The bound filter, or `true` if the rule has no filter.
    filter: Value,
    masks: BTreeMap<i32, Mask>,
}

impl ResolvedRule {
    /// Resolves a rule. If its filter cannot be bound, also returns the problem.
    fn of(rule: &ReadRule, schema: &SchemaIndex<'_>) -> Result<(Self, Option<Problem>), Problem> {
        let problem = |reason| Problem { policy: rule.policy.clone(), reason };
        let mut masks = BTreeMap::new();
        for (name, mask) in &rule.masks {
            let id = columns::resolve_column(schema, name, *mask).map_err(problem)?;
            add_mask(&mut masks, id, *mask);
        }
        let bound = rule.filter.as_ref().map(|filter| filter.bind(schema));
        let (filter, filter_problem) = match bound {
            None => (json!(true), None),
            Some(Ok(filter)) => (filter, None),
            // The whole filter is replaced, because a part of it might select more rows than the
            // whole filter.
            Some(Err(reason)) => (json!(false), Some(problem(reason))),
        };
        Ok((Self { filter, masks }, filter_problem))
    }

    /// Whether this rule shows at least the rows and values that `other` shows.
    fn shows_at_least(&self, other: &Self, schema: &SchemaIndex<'_>) -> bool {
        let rows = self.filter == json!(true)
            || other.filter == json!(false)
            || self.filter == other.filter;
        // A mask on an enclosing field hides the fields inside it, too.
        let hides = |id: i32, mask: Mask| {
            let round = schema.ancestors(id).map(|parent| parent.field.id);
            let theirs = other.masks.get(&id).is_some_and(|theirs| theirs.is_as_strict_as(mask));
            theirs || round.into_iter().any(|id| other.masks.contains_key(&id))
        };
        let columns = self.masks.iter().all(|(id, mask)| hides(*id, *mask));
        rows && (columns || other.filter == json!(false) && self.filter != json!(false))
    }
}

/// Removes each rule that shows nothing beyond another rule. Keeps one of several equal rules.
fn without_redundant(mut rules: Vec<ResolvedRule>, schema: &SchemaIndex<'_>) -> Vec<ResolvedRule> {
    let mut at = 0;
    while at < rules.len() {
        let is_redundant = |(n, other): (usize, &ResolvedRule)| {
            n != at && other.shows_at_least(&rules[at], schema)
        };
        if rules.iter().enumerate().any(is_redundant) {
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

/// Removes masks of fields inside a masked field, because readers could not apply both masks.
fn without_nested_masks(
    masks: BTreeMap<i32, Mask>,
    schema: &SchemaIndex<'_>,
) -> BTreeMap<i32, Mask> {
    let all = masks.clone();
    let inside = |id: i32| schema.ancestors(id).any(|parent| all.contains_key(&parent.field.id));
    masks.into_iter().filter(|(id, _)| !inside(*id)).collect()
}

/// Combines filters by *or*. `None` if the result selects all rows. Builds a balanced tree, because
/// clients parse the result recursively, and should not need deep recursion.
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

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}: {}", self.policy, self.reason)
    }
}

#[cfg(test)]
mod tests;
