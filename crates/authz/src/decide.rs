//! The decision: may this principal do this, to that?

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{
    AuthorizationError, Effect, Entities, Entity, EntityUid, PolicyId, PolicySet as CedarSet,
    Response,
};

use super::action::{Action, Load};
use super::context::Context;
use super::policy_set::{PolicySet, Revision};
use super::relevant::Scope;
use super::resource::{Kind, Resource};
use slateberg_model::principal::Identity;
use slateberg_model::read_restrictions::ReadRules;

/// Stands in for a policy where the credential itself is not good for the resource.
pub const CREDENTIAL_SCOPE: &str = "credential-scope";

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who asks.
    pub identity: &'a Arc<Identity>,
    /// What it is to be done to.
    pub resource: &'a Resource,
    /// Under which circumstances.
    pub context: &'a Context,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allow: bool,
    /// The ids of the policies that decided, in order: the permits that matched, or the forbids. None if it
    /// is denied because no permit matched.
    pub policies: Vec<String>,
    /// What the permits say of reading, if it is allowed to load a table and none of them allows to read all
    /// of it.
    pub read_rules: Option<Arc<ReadRules>>,
    /// By which policies.
    pub revision: Revision,
}

/// The answer "no".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What is not allowed.
    pub action: &'static str,
    /// The decision; none for whoever no policy speaks of.
    pub decision: Option<Arc<Decision>>,
}

impl PolicySet {
    /// Decides whether an action is allowed. What is no action, or is not done to such a thing, is allowed to
    /// nobody.
    pub fn decide(&self, action: &str, request: Request<'_>) -> Decision {
        self.decide_by(action, request, |scope| self.relevant(scope))
    }

    /// The same, by asking every policy.
    #[cfg(test)]
    pub(super) fn decide_by_all(&self, action: &str, request: Request<'_>) -> Decision {
        self.decide_by(action, request, |_| Cow::Borrowed(&self.cedar))
    }

    fn decide_by<'a>(
        &'a self,
        action: &str,
        request: Request<'_>,
        policies: impl FnOnce(&Scope<'_>) -> Cow<'a, CedarSet>,
    ) -> Decision {
        if !in_scope(request.identity, request.resource) {
            return self.denied(vec![CREDENTIAL_SCOPE.to_owned()]);
        }
        let reads = action == Load::NAME && request.resource.kind() == Kind::Table;
        let Some(action) = self.schema.action_on(action, request.resource.kind()) else {
            return self.denied(Vec::new());
        };
        let Some(mut path) = self.schema.path(request.resource) else {
            return self.denied(Vec::new());
        };
        let resource = path.innermost;
        let principal = self.schema.principal(request.identity);
        let policies = policies(&Scope {
            principal: &principal,
            memberships: &self.schema.memberships(request.identity),
            action,
            groups: self.schema.groups_of(action.id().unescaped()).unwrap_or(&HashSet::new()),
            resource: &resource,
            within: &path.entities.iter().map(Entity::uid).collect(),
        });
        path.entities.push(self.schema.principal_entity(request.identity));
        let Some(entities) = self.entities(path.entities, action) else {
            return self.denied(Vec::new());
        };
        let context = request.context.cedar(request.identity.method);
        let asked = cedar_policy::Request::new(principal, action.clone(), resource, context, None);
        let Ok(asked) = asked else { return self.denied(Vec::new()) };
        let response = self.authorizer.is_authorized(&asked, &policies, &entities);
        let (allow, mut policies) = self.judge(&response);
        policies.sort();
        let read_rules = if allow && reads { self.read_rules(&policies) } else { None };
        Decision { allow, policies, read_rules, revision: self.revision() }
    }

    pub(super) fn denied(&self, policies: Vec<String>) -> Decision {
        Decision { allow: false, policies, read_rules: None, revision: self.revision() }
    }

    /// Entities together with the action's and its groups'. None if two of them contradict each other.
    pub(super) fn entities(
        &self,
        mut entities: Vec<Entity>,
        action: &EntityUid,
    ) -> Option<Entities> {
        let groups = self.schema.groups_of(action.id().unescaped());
        let groups = groups.into_iter().flatten().cloned().collect();
        entities.push(Entity::new_no_attrs(action.clone(), groups));
        Entities::from_entities(entities, None).ok()
    }

    /// What Cedar's response comes to. Cedar skips a policy that cannot be evaluated; a forbid among them
    /// counts as one that matched, so that nothing is allowed because a prohibition was broken.
    pub(super) fn judge(&self, response: &Response) -> (bool, Vec<String>) {
        let broken: Vec<_> = response
            .diagnostics()
            .errors()
            .map(|AuthorizationError::PolicyEvaluationError(error)| error.policy_id())
            .filter(|id| self.forbids(id))
            .map(id_of)
            .collect();
        let allowed = response.decision() == cedar_policy::Decision::Allow;
        let reasons = response.diagnostics().reason().map(id_of);
        match (allowed, broken.is_empty()) {
            (_, true) => (allowed, reasons.collect()),
            (true, false) => (false, broken),
            (false, false) => (false, reasons.chain(broken).collect()),
        }
    }

    fn forbids(&self, id: &PolicyId) -> bool {
        self.cedar.policy(id).is_none_or(|policy| policy.effect() == Effect::Forbid)
    }
}

/// A policy's id as it is; what Cedar displays is escaped.
fn id_of(id: &PolicyId) -> String {
    let id: &str = id.as_ref();
    id.to_owned()
}

/// Whether a credential is good for what a resource is in. One that is good for some warehouses only is not
/// good for the catalog as a whole.
pub(super) fn in_scope(identity: &Identity, resource: &Resource) -> bool {
    match (&identity.warehouses, resource.warehouse_name()) {
        (None, _) => true,
        (Some(warehouses), Some(name)) => warehouses.contains(name),
        (Some(_), None) => false,
    }
}
