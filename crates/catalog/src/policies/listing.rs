//! Lists the policies in force.

use super::Sources;
use crate::error::MissingResource;
use crate::policies::Policies;
use crate::{Error, Operation, Result};
use slateberg_authz::listing::{ListedKind, ListedPolicy};
use slateberg_model::page::PageRequest;

/// The origin of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A policy file.
    File,
    /// The API.
    Api,
    /// A grant.
    Grant,
    /// The scope of the credential, which is not a policy.
    Credential,
}

/// A policy in force, or a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyInForce {
    /// The id of the policy.
    pub id: String,
    /// The origin of the policy.
    pub origin: Origin,
    /// For a policy from a file, the file and line. For a grant, its template.
    pub from: Option<String>,
    /// Whether this is a template, which has no effect without a grant.
    pub template: bool,
    /// Whether this is a `forbid`.
    pub forbids: bool,
    /// Its `@description`.
    pub description: Option<String>,
    /// Source, in Cedar's language.
    pub text: String,
}

/// A page of the policies in force, ordered by id.
#[derive(Debug, Clone)]
pub struct PolicyPage {
    /// The number of the newest revision of stored policies and grants.
    pub revision: u64,
    /// The hash of the policy set in force.
    pub in_force: String,
    /// The policies.
    pub policies: Vec<PolicyInForce>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// Adds the origin to a listed policy.
pub(super) fn in_force(sources: &Sources, listed: ListedPolicy) -> PolicyInForce {
    let ListedPolicy { id, forbids, description, text, kind } = listed;
    let template = matches!(kind, ListedKind::Template(..));
    let (origin, from) = match kind {
        ListedKind::Grant(template) => (Origin::Grant, Some(template)),
        _ if sources.stored_in_force && sources.book.policies.contains_key(&id) => {
            (Origin::Api, None)
        }
        ListedKind::Policy(file, line) | ListedKind::Template(file, line) => {
            (Origin::File, Some(format!("{file}:{line}")))
        }
    };
    PolicyInForce { id, origin, from, template, forbids, description, text }
}

impl Policies {
    /// Returns the policies and templates in force.
    pub fn policies_in_force(
        &self,
        operation: &Operation,
        page: &PageRequest,
    ) -> Result<PolicyPage> {
        self.may_read_policies(operation)?;
        let (sources, set) = (self.state.sources(), self.authority().policies());
        let mut listed = set.list();
        if let Some(after) = &page.after {
            listed.retain(|policy| policy.id > *after);
        }
        let limit = page.limit.unwrap_or(listed.len());
        let further = listed.len() > limit;
        listed.truncate(limit);
        let next = listed.last().filter(|_| further).map(|last| page.token(&last.id));
        Ok(PolicyPage {
            revision: sources.book.number,
            in_force: set.revision().to_string(),
            policies: listed.into_iter().map(|policy| in_force(&sources, policy)).collect(),
            next,
        })
    }

    /// Returns a policy or template in force.
    pub fn policy_in_force(&self, operation: &Operation, id: &str) -> Result<PolicyInForce> {
        self.may_read_policies(operation)?;
        let listed = self.authority().policies().listed(id);
        let listed = listed.map(|listed| in_force(&self.state.sources(), listed));
        listed.ok_or_else(|| Error::NotFound(MissingResource::Policy(id.to_owned())))
    }
}
