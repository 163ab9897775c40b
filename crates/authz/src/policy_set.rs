//! The policies in force: a set that was checked as a whole, or none.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use cedar_policy::{Authorizer, Effect, PolicyId};
use sha2::{Digest, Sha256};

use super::facts::Asks;
use super::grants::Grant;
use super::policy_file::PolicyFile;
use super::problem::Problem;
use super::rules::{ByPrincipal, Rule};
use super::schema::Schema;
use gathered::Gathered;
use slateberg_model::read_restrictions::ReadRules;

mod annotations;
mod gathered;

/// Which policies: the same for two sets exactly if they were made of the same files and grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revision([u8; 8]);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A set of policies that was checked: every policy well-formed, named, and valid by the schema.
#[derive(Debug)]
pub struct PolicySet {
    pub(super) schema: Arc<Schema>,
    pub(super) cedar: cedar_policy::PolicySet,
    pub(super) authorizer: Authorizer,
    pub(super) rules: Vec<Rule>,
    pub(super) by_principal: ByPrincipal,
    asks: HashMap<String, Asks>,
    /// Where the policies and templates stand: the file's name, and the line.
    pub(super) places: BTreeMap<String, (String, usize)>,
    revision: Revision,
    warnings: Vec<Problem>,
}

/// What a policy says of itself, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Whether it forbids.
    pub forbids: bool,
    /// Its `@description`.
    pub description: Option<String>,
}

impl PolicySet {
    /// Makes a set of files and grants: all of it, or the list of what is wrong with it.
    pub fn build(
        schema: Arc<Schema>,
        files: &[PolicyFile],
        grants: &[Grant],
    ) -> Result<Self, Vec<Problem>> {
        let mut gathered = Gathered::default();
        for file in files {
            gathered.read(&schema, file);
        }
        gathered.link(&schema, grants);
        let warnings = gathered.validate(&schema);
        let rules = gathered.rules();
        let places = gathered.lines();
        let Gathered { cedar, mut problems, .. } = gathered;
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
            places,
            revision,
            warnings,
        })
    }

    /// The schema that it was checked by.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Which set this is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// What is suspicious but not wrong, such as a condition that is never true.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// How many policies there are, grants included, templates not.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether nothing is permitted to anybody.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many templates there are.
    pub fn templates(&self) -> usize {
        self.cedar.num_of_templates()
    }

    /// What the policies ask for that could have a say in an action. Everything, if there is no such action.
    pub fn asks(&self, action: &str) -> Asks {
        self.asks.get(action).copied().unwrap_or(Asks::ALL)
    }

    /// What these permits, which all allow somebody to load a table, say of reading it; nothing if one of
    /// them says nothing.
    pub(super) fn read_rules(&self, permits: &[String]) -> Option<Arc<ReadRules>> {
        let mut rules = Vec::new();
        for id in permits {
            // All policies are here. One that were not would add nothing to what may be read.
            if let Ok(at) = self.rules.binary_search_by(|rule| rule.id().cmp(id)) {
                rules.push(Arc::clone(self.rules.get(at)?.read.as_ref()?));
            }
        }
        Some(Arc::new(ReadRules::new(rules)))
    }

    /// What a policy says of itself.
    pub fn summary(&self, id: &str) -> Option<Summary> {
        let policy = self.cedar.policy(&PolicyId::new(id))?;
        Some(Summary {
            id: id.to_owned(),
            forbids: policy.effect() == Effect::Forbid,
            description: policy.annotation("description").map(ToOwned::to_owned),
        })
    }
}

fn asks_of(schema: &Schema, rules: &[Rule], action: &str) -> Asks {
    let (Some(uid), Some(groups)) = (schema.action(action), schema.groups_of(action)) else {
        return Asks::ALL;
    };
    let covering = rules.iter().filter(|rule| rule.covers_action(uid, groups));
    covering.fold(Asks::default(), |asks, rule| asks.or(rule.asks))
}

fn revision(files: &[PolicyFile], grants: &[Grant]) -> Revision {
    let mut hash = Sha256::new();
    let mut add = |kind: u8, text: &str| {
        hash.update([kind]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|file| (&file.name, &file.text));
    for file in files {
        add(0, &file.name);
        add(1, &file.text);
    }
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
