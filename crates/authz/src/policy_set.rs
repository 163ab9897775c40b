//! The policies in force: a set that was checked as a whole, or none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Authorizer, Effect, EntityUid, Policy, PolicyId, PrincipalConstraint,
    ResourceConstraint,
};
use sha2::{Digest, Sha256};

use super::conditions::Conditions;
use super::distinctions::Distinctions;
use super::facts::Asks;
use super::grants::Grant;
use super::problem::Problem;
use super::relevant::ByPrincipal;
use super::schema::Schema;
use gathered::Gathered;
use slateberg_model::read_restrictions::{ReadRule, ReadRules};

mod annotations;
mod gathered;

/// Policies as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Where they stand, for messages.
    pub name: String,
    /// The text, in Cedar's language.
    pub text: String,
}

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

/// A policy, with what has to be known of it to leave it out where it cannot match.
#[derive(Debug)]
pub(super) struct Rule {
    /// The policy, standing alone: without a template, even if it is a grant.
    pub(super) policy: Policy,
    pub(super) effect: Effect,
    pub(super) principal: PrincipalConstraint,
    pub(super) action: ActionConstraint,
    pub(super) resource: ResourceConstraint,
    pub(super) asks: Asks,
    /// Resource attributes that the policies depend on, to group the names of one page.
    pub(super) distinctions: Distinctions,
    /// What its annotations say of reading; none for a permit to read everything.
    pub(super) read: Option<Arc<ReadRule>>,
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

impl Rule {
    fn of(policy: Policy, read: Option<ReadRule>) -> Self {
        let conditions = Conditions::of(&policy);
        Self {
            effect: policy.effect(),
            principal: policy.principal_constraint(),
            action: policy.action_constraint(),
            resource: policy.resource_constraint(),
            asks: Asks::of(&conditions),
            distinctions: Distinctions::of(&conditions),
            policy,
            read: read.map(Arc::new),
        }
    }

    pub(super) fn id(&self) -> &str {
        self.policy.id().as_ref()
    }

    /// Whether an action is within the scope.
    pub(super) fn covers_action(&self, action: &EntityUid, groups: &HashSet<EntityUid>) -> bool {
        covers(&self.action, action, groups)
    }

    /// Whether a principal is within the scope.
    pub(super) fn covers_principal(
        &self,
        principal: &EntityUid,
        memberships: &HashSet<EntityUid>,
    ) -> bool {
        let is_in = |one: &EntityUid| one == principal || memberships.contains(one);
        match &self.principal {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Eq(one) => one == principal,
            PrincipalConstraint::In(one) => is_in(one),
            PrincipalConstraint::Is(name) => name == principal.type_name(),
            PrincipalConstraint::IsIn(name, one) => name == principal.type_name() && is_in(one),
        }
    }
}

/// Whether an action, which is in these groups, is within a scope.
pub(super) fn covers(
    scope: &ActionConstraint,
    action: &EntityUid,
    groups: &HashSet<EntityUid>,
) -> bool {
    let is_or_is_in = |one: &EntityUid| one == action || groups.contains(one);
    match scope {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(one) => one == action,
        ActionConstraint::In(any) => any.iter().any(is_or_is_in),
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
