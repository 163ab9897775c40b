//! The policies in force: a set that was validated as a whole.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use cedar_policy::{ActionConstraint, Authorizer, Effect, PolicyId};
use sha2::{Digest, Sha256};

use super::grants::Grant;
use super::policy_file::PolicyFile;
use super::policy_inputs::PolicyInputs;
use super::problem::Problem;
use super::rules::{ByPrincipal, Rule};
use super::schema::Schema;
use builder::SetBuilder;
use slateberg_model::read_restrictions::ReadRules;

mod annotations;
mod builder;

/// Revision of a set. Two sets have the same revision if and only if they were built from files with
/// the same contents, and from the same grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revision([u8; 8]);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A validated set of policies: every policy is well-formed, has an id, and is valid by the schema.
#[derive(Debug)]
pub struct PolicySet {
    pub(super) schema: Arc<Schema>,
    pub(super) cedar: cedar_policy::PolicySet,
    pub(super) authorizer: Authorizer,
    pub(super) rules: Vec<Rule>,
    pub(super) by_principal: ByPrincipal,
    asks: HashMap<String, PolicyInputs>,
    /// Position of each policy and template: the name of its file, and the line.
    pub(super) positions: BTreeMap<String, (String, usize)>,
    revision: Revision,
    warnings: Vec<Problem>,
}

/// Description of a policy in listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Id of the policy.
    pub id: String,
    /// Whether it is a `forbid`.
    pub forbids: bool,
    /// Its `@description`.
    pub description: Option<String>,
}

impl PolicySet {
    /// Builds a set from files and grants. Errors with all problems that it finds.
    pub fn build(
        schema: Arc<Schema>,
        files: &[PolicyFile],
        grants: &[Grant],
    ) -> Result<Self, Vec<Problem>> {
        let mut builder = SetBuilder::default();
        for file in files {
            builder.read(&schema, file);
        }
        builder.link(&schema, grants);
        let warnings = builder.validate(&schema);
        let rules = builder.rules();
        let positions = builder.lines();
        let SetBuilder { cedar, mut problems, .. } = builder;
        if !problems.is_empty() {
            problems.sort();
            return Err(problems);
        }
        let asks = schema
            .actions()
            .map(|action| (action.to_owned(), asks_of(&schema, &rules, action)))
            .collect();
        let revision = revision(files, grants);
        let by_principal = ByPrincipal::of(&rules);
        let authorizer = Authorizer::new();
        Ok(Self {
            schema,
            cedar,
            authorizer,
            rules,
            by_principal,
            asks,
            positions,
            revision,
            warnings,
        })
    }

    /// The schema that validated the set.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Revision of the set.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Warnings about policies that are valid but suspicious, for example because a condition is
    /// never true.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Number of policies, including grants, without templates.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether the set has no policies, and so permits nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Number of templates.
    pub fn templates(&self) -> usize {
        self.cedar.num_of_templates()
    }

    /// Returns the parts of a request that policies on an action use. Returns all parts for an
    /// unknown action.
    pub fn asks(&self, action: &str) -> PolicyInputs {
        self.asks.get(action).copied().unwrap_or(PolicyInputs::ALL)
    }

    /// Returns the read restrictions of these permit policies. Each of the policies allows a table
    /// to be loaded. `None` if one of them has no restriction.
    pub(super) fn read_rules(&self, permits: &[String]) -> Option<Arc<ReadRules>> {
        let mut rules = Vec::new();
        for id in permits {
            // The set contains all of these policies. If a policy were missing, the principal could
            // read less, not more.
            if let Ok(at) = self.rules.binary_search_by(|rule| rule.id().cmp(id)) {
                rules.push(Arc::clone(self.rules.get(at)?.read.as_ref()?));
            }
        }
        Some(Arc::new(ReadRules::new(rules)))
    }

    /// Whether the scope of a policy names actions or groups of actions. A policy for all actions
    /// does not permit `ReadRestricted` or `ReadPermittedFiles`. Otherwise, a permit with a row
    /// filter and for all actions would also give access to files.
    pub(super) fn names_actions(&self, id: &str) -> bool {
        let found = self.rules.binary_search_by(|rule| rule.id().cmp(id)).ok();
        let rule = found.and_then(|at| self.rules.get(at));
        rule.is_some_and(|rule| rule.action != ActionConstraint::Any)
    }

    /// Returns the description of a policy.
    pub fn summary(&self, id: &str) -> Option<Summary> {
        let policy = self.cedar.policy(&PolicyId::new(id))?;
        Some(Summary {
            id: id.to_owned(),
            forbids: policy.effect() == Effect::Forbid,
            description: policy.annotation("description").map(ToOwned::to_owned),
        })
    }
}

fn asks_of(schema: &Schema, rules: &[Rule], action: &str) -> PolicyInputs {
    let (Some(uid), Some(groups)) = (schema.action(action), schema.groups_of(action)) else {
        return PolicyInputs::ALL;
    };
    let covering = rules.iter().filter(|rule| rule.covers_action(uid, groups));
    covering.fold(PolicyInputs::default(), |asks, rule| asks.or(rule.asks))
}

fn revision(files: &[PolicyFile], grants: &[Grant]) -> Revision {
    let mut hash = Sha256::new();
    let mut add = |kind: u8, text: &str| {
        hash.update([kind]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    let mut files: Vec<_> = files.iter().collect();
    // The members of a cluster may have the same files in different directories.
    files.sort_by_key(|file| &file.text);
    files.iter().for_each(|file| add(1, &file.text));
    let mut grants: Vec<_> = grants.iter().map(ToString::to_string).collect();
    grants.sort();
    grants.dedup();
    grants.iter().for_each(|grant| add(2, grant));
    let digest = hash.finalize();
    let mut revision = [0; 8];
    revision.copy_from_slice(&digest[..8]);
    Revision(revision)
}

#[cfg(test)]
mod tests;
