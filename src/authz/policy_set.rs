//! The policies in force: a set that was checked as a whole, or none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Authorizer, Effect, EntityUid, Policy, PolicyId, PrincipalConstraint,
    ResourceConstraint, ValidationMode,
};
use sha2::{Digest, Sha256};

use super::facts::Asks;
use super::grants::{self, Grant};
use super::problem::Problem;
use super::relevant::ByPrincipal;
use super::schema::Schema;

/// How far a policy may follow references from the resource: `resource.namespace.parent.warehouse` is three
/// steps.
const REFERENCES_MAX: u32 = 8;
/// The annotation that names a policy.
const ID: &str = "id";
/// What stands in for a file where a problem is with a grant.
const GRANTS: &str = "grants";

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
            gathered.read(file);
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
    fn of(policy: Policy) -> Self {
        Self {
            effect: policy.effect(),
            principal: policy.principal_constraint(),
            action: policy.action_constraint(),
            resource: policy.resource_constraint(),
            asks: Asks::of(&policy),
            policy,
        }
    }

    /// Whether an action is within the scope.
    pub(super) fn covers_action(&self, action: &EntityUid, groups: &HashSet<EntityUid>) -> bool {
        let is_or_is_in = |one: &EntityUid| one == action || groups.contains(one);
        match &self.action {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(one) => one == action,
            ActionConstraint::In(any) => any.iter().any(is_or_is_in),
        }
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

fn asks_of(schema: &Schema, rules: &[Rule], action: &str) -> Asks {
    let (Some(uid), Some(groups)) = (schema.action(action), schema.groups_of(action)) else {
        return Asks::ALL;
    };
    let covering = rules.iter().filter(|rule| rule.covers_action(uid, groups));
    covering.fold(Asks::default(), |asks, rule| asks.or(rule.asks))
}

/// A set that is being put together.
#[derive(Default)]
struct Gathered {
    cedar: cedar_policy::PolicySet,
    /// Where the policies and templates stand: the file's name and text, and the offset.
    places: BTreeMap<String, (String, Arc<str>, usize)>,
    problems: Vec<Problem>,
}

impl Gathered {
    fn read(&mut self, file: &PolicyFile) {
        let parsed = match file.text.parse::<cedar_policy::PolicySet>() {
            Ok(parsed) => parsed,
            Err(errors) => {
                let problem = |error| Problem::of(&file.name, &file.text, 0, error);
                self.problems.extend(errors.iter().map(|error| problem(error)));
                return;
            }
        };
        let text: Arc<str> = file.text.as_str().into();
        // In the order of the file, so that of two with one name the second is the one to be refused.
        let place = |policy: String| file.text.find(&policy).unwrap_or(0);
        let mut policies: Vec<_> =
            parsed.policies().map(|policy| (place(policy.to_string()), policy)).collect();
        policies.sort_by_key(|(offset, _)| *offset);
        for (offset, policy) in policies {
            if let Some(id) = self.name(file, &text, offset, policy.annotation(ID)) {
                let added = self.cedar.add(policy.new_id(id));
                self.note(file, offset, added);
            }
        }
        for template in parsed.templates() {
            let offset = place(template.to_string());
            if let Some(id) = self.name(file, &text, offset, template.annotation(ID)) {
                let added = self.cedar.add_template(template.new_id(id));
                self.note(file, offset, added);
            }
        }
    }

    /// The name of a policy; none, and a problem, if it has none or one that is taken.
    fn name(
        &mut self,
        file: &PolicyFile,
        text: &Arc<str>,
        offset: usize,
        id: Option<&str>,
    ) -> Option<PolicyId> {
        let problem = |message: String| Problem::at(&file.name, text, offset, message);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let Some(id) = id.filter(|id| !id.is_empty() && id.chars().all(plain)) else {
            let wanted = "expected @id(\"...\") of letters, digits, '-', '_' and '.'";
            self.problems.push(problem(format!("the policy has no name: {wanted}")));
            return None;
        };
        if let Some((other, other_text, other_offset)) = self.places.get(id) {
            let place = Problem::at(other, other_text, *other_offset, "");
            let message = format!("@id(\"{id}\") is taken, at {}:{}", place.file, place.line);
            self.problems.push(problem(message));
            return None;
        }
        let place = (file.name.clone(), Arc::clone(text), offset);
        self.places.insert(id.to_owned(), place);
        Some(PolicyId::new(id))
    }

    fn note(
        &mut self,
        file: &PolicyFile,
        offset: usize,
        added: Result<(), cedar_policy::PolicySetError>,
    ) {
        if let Err(error) = added {
            self.problems.push(Problem::of(&file.name, &file.text, offset, &error));
        }
    }

    fn link(&mut self, schema: &Schema, grants: &[Grant]) {
        let problem = |message| Problem::at(GRANTS, "", 0, message);
        for grant in grants.iter().filter(|grant| !grant.is_grantable()) {
            self.problems
                .push(problem(format!("{grant}: nothing is granted on the catalog itself")));
        }
        for (id, link) in grants::links(schema, grants) {
            let linked = self.cedar.link(link.template, PolicyId::new(&id), link.values);
            if let Err(error) = linked {
                self.problems.push(problem(format!("{id}: {error}")));
            }
        }
    }

    /// Checks everything by the schema, and gives what is suspicious.
    fn validate(&mut self, schema: &Schema) -> Vec<Problem> {
        let strict = ValidationMode::Strict;
        let result = schema.validator.validate_with_level(&self.cedar, strict, REFERENCES_MAX);
        for error in result.validation_errors() {
            let problem = self.place(error.policy_id(), error);
            // What is wrong with a template is said once, and not for every grant.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let warnings = result.validation_warnings();
        let mut warnings: Vec<_> =
            warnings.map(|warning| self.place(warning.policy_id(), warning)).collect();
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// The policies one by one, in the order of their names.
    fn rules(&mut self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for policy in self.cedar.policies() {
            match standing_alone(policy) {
                Ok(policy) => rules.push(Rule::of(policy)),
                Err(error) => {
                    let message = format!("{}: {error}", policy.id());
                    self.problems.push(Problem::at(GRANTS, "", 0, message));
                }
            }
        }
        rules.sort_by(|one, other| {
            let (one, other): (&str, &str) = (one.policy.id().as_ref(), other.policy.id().as_ref());
            one.cmp(other)
        });
        rules
    }

    /// The file and the line of each policy and template.
    fn lines(&self) -> BTreeMap<String, (String, usize)> {
        let line = |(file, text, offset): &(String, Arc<str>, usize)| {
            (file.clone(), Problem::at(file, text, *offset, "").line)
        };
        self.places.iter().map(|(id, place)| (id.clone(), line(place))).collect()
    }

    fn place(&self, id: &PolicyId, error: &dyn miette::Diagnostic) -> Problem {
        let id: &str = id.as_ref();
        // A grant's id begins with that of its template.
        let template = id.split('[').next().unwrap_or_default();
        match self.places.get(id).or_else(|| self.places.get(template)) {
            Some((file, text, offset)) => Problem::of(file, text, *offset, error),
            None => Problem::of(GRANTS, "", 0, error),
        }
    }
}

/// A grant with its values in the place of its template's slots.
fn standing_alone(policy: &Policy) -> Result<Policy, Box<dyn std::error::Error>> {
    if policy.is_static() {
        return Ok(policy.clone());
    }
    Ok(Policy::from_json(Some(policy.id().clone()), policy.to_json()?)?)
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
