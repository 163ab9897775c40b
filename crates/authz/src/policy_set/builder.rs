//! Builder of a policy set from files and grants. Collects all problems.

use std::collections::BTreeMap;
use std::sync::Arc;

use cedar_policy::{Policy, PolicyId, ValidationMode};

use super::annotations::{self, Annotated, ID};
use crate::bundled;
use crate::grants::{self, Grant};
use crate::policy_file::PolicyFile;
use crate::problem::Problem;
use crate::rules::Rule;
use crate::schema::Schema;
use slateberg_model::read_restrictions::ReadRule;

/// Maximum length of a chain of references from the resource: `resource.namespace.parent.warehouse`
/// has three.
pub(super) const REFERENCES_MAX: u32 = 8;
/// Problems with grants contain this name instead of a file name.
const GRANTS: &str = "grants";

/// Builder of a policy set.
#[derive(Default)]
pub(super) struct SetBuilder {
    pub(super) cedar: cedar_policy::PolicySet,
    /// Position of each policy and template: the name and source of its file, and the offset.
    positions: BTreeMap<String, (String, Arc<str>, usize)>,
    pub(super) problems: Vec<Problem>,
}

impl SetBuilder {
    /// Adds a file.
    pub(super) fn read(&mut self, schema: &Schema, file: &PolicyFile) {
        let parsed = match file.text.parse::<cedar_policy::PolicySet>() {
            Ok(parsed) => parsed,
            Err(errors) => {
                let problem = |error| Problem::of(&file.name, &file.text, 0, error);
                self.problems.extend(errors.iter().map(|error| problem(error)));
                return;
            }
        };
        let text: Arc<str> = file.text.as_str().into();
        // Policies are added in the order of the file. So if two policies have the same id, the
        // second one is rejected.
        let offset_of = |policy: String| file.text.find(&policy).unwrap_or(0);
        let mut policies: Vec<_> =
            parsed.policies().map(|policy| (offset_of(policy.to_string()), policy)).collect();
        policies.sort_by_key(|(offset, _)| *offset);
        for (offset, policy) in policies {
            self.check_annotations(file, offset, &Annotated::policy(policy), schema);
            if let Some(id) = self.name(file, &text, offset, policy.annotation(ID)) {
                let added = self.cedar.add(policy.new_id(id));
                self.note(file, offset, added);
            }
        }
        for template in parsed.templates() {
            let offset = offset_of(template.to_string());
            self.check_annotations(file, offset, &Annotated::template(template), schema);
            if let Some(id) = self.name(file, &text, offset, template.annotation(ID)) {
                let added = self.cedar.add_template(template.new_id(id));
                self.note(file, offset, added);
            }
        }
    }

    /// Reports problems with annotations, each at its position.
    fn check_annotations(
        &mut self,
        file: &PolicyFile,
        offset: usize,
        annotated: &Annotated<'_>,
        schema: &Schema,
    ) {
        for (name, message) in annotated.problems(schema) {
            let policy = file.text.get(offset..).unwrap_or_default();
            let offset = offset + policy.find(&format!("@{name}")).unwrap_or_default();
            self.problems.push(Problem::at(&file.name, &file.text, offset, message));
        }
    }

    /// Returns the id of a policy. Reports a missing or duplicate id, and returns `None`.
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
            let expected = "expected @id(\"...\") of letters, digits, '-', '_' and '.'";
            self.problems.push(problem(format!("the policy has no name: {expected}")));
            return None;
        };
        if let Some((other, other_text, other_offset)) = self.positions.get(id) {
            let offset_of = Problem::at(other, other_text, *other_offset, "");
            let message =
                format!("@id(\"{id}\") is taken, at {}:{}", offset_of.file, offset_of.line);
            self.problems.push(problem(message));
            return None;
        }
        let offset_of = (file.name.clone(), Arc::clone(text), offset);
        self.positions.insert(id.to_owned(), offset_of);
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

    /// Adds the policies of grants.
    pub(super) fn link(&mut self, schema: &Schema, grants: &[Grant]) {
        let problem = |message| Problem::at(GRANTS, "", 0, message);
        for grant in grants.iter().filter(|grant| !grant.is_grantable()) {
            self.problems
                .push(problem(format!("{grant}: a grant on the catalog itself is not supported")));
        }
        for (id, link) in grants::links(schema, grants) {
            let linked = self.cedar.link(link.template, PolicyId::new(&id), link.values);
            if let Err(error) = linked {
                self.problems.push(problem(format!("{id}: {error}")));
            }
        }
    }

    /// Validates everything except the default policies by the schema. Returns the warnings.
    pub(super) fn validate(&mut self, schema: &Schema) -> Vec<Problem> {
        let strict = ValidationMode::Strict;
        let own = self.without_defaults();
        let result = schema.validator.validate_with_level(&own, strict, REFERENCES_MAX);
        for error in result.validation_errors() {
            let problem = self.position(error.policy_id(), error);
            // A problem with a template is reported once, not for every grant.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let warnings = result.validation_warnings();
        let mut warnings: Vec<_> =
            warnings.map(|warning| self.position(warning.policy_id(), warning)).collect();
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// Returns the set without the default policies and their grants. Nearly all the time of a build
    /// would be spent on their validation, so a test validates them instead.
    fn without_defaults(&self) -> cedar_policy::PolicySet {
        let is_default = |id: &PolicyId| {
            let position = self.positions.get::<str>(id.as_ref());
            position.is_some_and(|(_, text, _)| bundled::is_default(text))
        };
        let mut own = cedar_policy::PolicySet::new();
        for template in self.cedar.templates().filter(|template| !is_default(template.id())) {
            own.add_template(template.clone()).expect("the ids of a set differ");
        }
        for policy in self.cedar.policies() {
            match (policy.template_id(), policy.template_links()) {
                (Some(template), Some(values)) if !is_default(template) => own
                    .link(template.clone(), policy.id().clone(), values)
                    .expect("the set contains the template"),
                (None, _) if !is_default(policy.id()) => {
                    own.add(policy.clone()).expect("the ids of a set differ");
                }
                _ => {}
            }
        }
        own
    }

    /// Returns the policies, ordered by id.
    pub(super) fn rules(&mut self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for policy in self.cedar.policies() {
            match alone_with_rule(policy) {
                Ok((policy, read)) => rules.push(Rule::of(policy, read)),
                // The problem with the template is reported already.
                Err(_) if !self.problems.is_empty() => {}
                Err(error) => {
                    let message = format!("{}: {error}", policy.id());
                    self.problems.push(Problem::at(GRANTS, "", 0, message));
                }
            }
        }
        rules.sort_by(|one, other| one.id().cmp(other.id()));
        rules
    }

    /// Returns the file and the line of each policy and template.
    pub(super) fn lines(&self) -> BTreeMap<String, (String, usize)> {
        let line = |(file, text, offset): &(String, Arc<str>, usize)| {
            (file.clone(), Problem::at(file, text, *offset, "").line)
        };
        self.positions.iter().map(|(id, offset_of)| (id.clone(), line(offset_of))).collect()
    }

    fn position(&self, id: &PolicyId, error: &dyn miette::Diagnostic) -> Problem {
        let id: &str = id.as_ref();
        // The id of a grant begins with that of its template.
        let template = id.split('[').next().unwrap_or_default();
        match self.positions.get(id).or_else(|| self.positions.get(template)) {
            Some((file, text, offset)) => Problem::of(file, text, *offset, error),
            None => Problem::of(GRANTS, "", 0, error),
        }
    }
}

type BoxError = Box<dyn std::error::Error>;

/// Converts a policy to a static one, and parses its read restrictions.
fn alone_with_rule(policy: &Policy) -> Result<(Policy, Option<ReadRule>), BoxError> {
    let policy = as_static(policy)?;
    let read = annotations::read_rule(&policy)?;
    Ok((policy, read))
}

/// Converts a grant to a static policy, with its values in the template's slots.
fn as_static(policy: &Policy) -> Result<Policy, BoxError> {
    if policy.is_static() {
        return Ok(policy.clone());
    }
    Ok(Policy::from_json(Some(policy.id().clone()), policy.to_json()?)?)
}
