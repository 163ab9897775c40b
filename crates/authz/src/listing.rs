//! Lists the policies in force.

use cedar_policy::{Effect, PolicyId, Template};

use super::policy_set::PolicySet;
use super::problem::Problem;

/// A policy, or a template of policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPolicy {
    /// Id of the policy.
    pub id: String,
    /// Whether it is a `forbid`.
    pub forbids: bool,
    /// Its `@description`.
    pub description: Option<String>,
    /// Source, in Cedar's language. For a grant, with its values in the template's slots.
    pub text: String,
    /// Kind and origin.
    pub kind: ListedKind,
}

/// Kind and origin of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedKind {
    /// A policy, with the name of its file and its line.
    Policy(String, usize),
    /// A template, with the name of its file and its line.
    Template(String, usize),
    /// The policy of a grant, with the template's id.
    Grant(String),
}

impl PolicySet {
    /// Returns all policies and templates, ordered by id.
    pub fn list(&self) -> Vec<ListedPolicy> {
        let policies = self.rules.iter().filter_map(|rule| self.listed(id_of(rule.policy.id())));
        let templates = self.cedar.templates().map(|template| self.listed_template(template));
        let mut all: Vec<_> = policies.chain(templates).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// Returns the policy or template with this id.
    pub fn listed(&self, id: &str) -> Option<ListedPolicy> {
        let key = PolicyId::new(id);
        let Some(policy) = self.cedar.policy(&key) else {
            return self.cedar.template(&key).map(|template| self.listed_template(template));
        };
        let at = self.rules.binary_search_by(|rule| id_of(rule.policy.id()).cmp(id)).ok()?;
        let alone = &self.rules.get(at)?.policy;
        let (kind, text) = match policy.template_id() {
            Some(template) => {
                let text = alone.to_cedar().unwrap_or_else(|| alone.to_string());
                (ListedKind::Grant(id_of(template).to_owned()), text)
            }
            None => {
                let (file, line) = self.position_of(id);
                (ListedKind::Policy(file, line), policy.to_string())
            }
        };
        Some(ListedPolicy {
            id: id.to_owned(),
            forbids: policy.effect() == Effect::Forbid,
            description: policy.annotation("description").map(ToOwned::to_owned),
            text,
            kind,
        })
    }

    fn listed_template(&self, template: &Template) -> ListedPolicy {
        let id = id_of(template.id()).to_owned();
        let (file, line) = self.position_of(&id);
        ListedPolicy {
            forbids: template.effect() == Effect::Forbid,
            description: template.annotation("description").map(ToOwned::to_owned),
            text: template.to_string(),
            kind: ListedKind::Template(file, line),
            id,
        }
    }

    fn position_of(&self, id: &str) -> (String, usize) {
        self.positions.get(id).cloned().unwrap_or_default()
    }
}

/// Returns the ids of the policies and templates in a source, in no particular order.
pub fn names(file: &str, text: &str) -> Result<Vec<Option<String>>, Vec<Problem>> {
    let parsed = text.parse::<cedar_policy::PolicySet>().map_err(|errors| {
        errors.iter().map(|error| Problem::of(file, text, 0, error)).collect::<Vec<_>>()
    })?;
    let own = |annotation: Option<&str>| annotation.map(ToOwned::to_owned);
    let policies = parsed.policies().map(|policy| own(policy.annotation("id")));
    let templates = parsed.templates().map(|template| own(template.annotation("id")));
    Ok(policies.chain(templates).collect())
}

fn id_of(id: &PolicyId) -> &str {
    id.as_ref()
}
