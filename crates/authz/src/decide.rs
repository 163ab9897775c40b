//! Decides whether a principal may perform an action on a resource.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{
    AuthorizationError, Effect, Entities, Entity, EntityUid, PolicyId, PolicySet as CedarSet,
    Response,
};

use super::action::{Action, Load, ReadPermittedFiles, ReadRestricted};
use super::context::Context;
use super::policy_set::{PolicySet, Revision};
use super::resource::{Kind, Resource};
use super::scope_filter::Scope;
use slateberg_model::principal::Identity;
use slateberg_model::read_restrictions::ReadRules;

/// The id that a denial contains instead of a policy id if the resource is outside the credential's
/// scope.
pub const CREDENTIAL_SCOPE: &str = "credential-scope";

/// The actions that only permits that name them permit.
const NAMED_ONLY: [&str; 2] = [ReadRestricted::NAME, ReadPermittedFiles::NAME];

/// A request for a decision.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The principal.
    pub identity: &'a Arc<Identity>,
    /// The resource.
    pub resource: &'a Resource,
    /// The context.
    pub context: &'a Context,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allow: bool,
    /// Sorted ids of the policies that decided: the matching permit policies of an allowed request,
    /// or the matching forbid policies of a denied one. Empty if the request is denied because no
    /// permit policy matched.
    pub policies: Vec<String>,
    /// Read restrictions of an allowed load of a table. `None` if a matching permit policy allows
    /// reading the whole table.
    pub read_rules: Option<Arc<ReadRules>>,
    /// Revision of the policies.
    pub revision: Revision,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The action.
    pub action: &'static str,
    /// The decision. `None` for a background task: no policies are evaluated for it.
    pub decision: Option<Arc<Decision>>,
}

impl PolicySet {
    /// Decides whether an action is allowed. Denies unknown actions, and actions that do not apply
    /// to the type of the resource.
    pub fn decide(&self, action: &str, request: Request<'_>) -> Decision {
        self.decide_by(action, request, |scope| self.relevant(scope))
    }

    /// Evaluates all policies instead of those that `relevant` selects, for comparison in tests.
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
        let needs_name = NAMED_ONLY.contains(&action);
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
        let context = request.context.cedar(request.identity.method, &self.schema);
        let cedar_request =
            cedar_policy::Request::new(principal, action.clone(), resource, context, None);
        let Ok(cedar_request) = cedar_request else { return self.denied(Vec::new()) };
        let response = self.authorizer.is_authorized(&cedar_request, &policies, &entities);
        let (allow, mut policies) = self.judge(&response);
        if allow && needs_name {
            policies.retain(|id| self.names_actions(id));
            if policies.is_empty() {
                return self.denied(policies);
            }
        }
        policies.sort();
        let read_rules = if allow && reads { self.read_rules(&policies) } else { None };
        Decision { allow, policies, read_rules, revision: self.revision() }
    }

    pub(super) fn denied(&self, policies: Vec<String>) -> Decision {
        Decision { allow: false, policies, read_rules: None, revision: self.revision() }
    }

    /// Adds the entity of the action, which refers to its groups. `None` if two entities contradict
    /// each other.
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

    /// Returns whether the request is allowed, and the policies that decided, from Cedar's
    /// response. Cedar skips policies that it cannot evaluate. Here, a skipped forbid policy counts
    /// as a match. Otherwise, the request could be allowed because the evaluation of a forbid
    /// policy failed.
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

/// Returns the id of a policy without the escapes of Cedar's display form.
fn id_of(id: &PolicyId) -> String {
    let id: &str = id.as_ref();
    id.to_owned()
}

/// Whether the scope of a credential includes a resource. The scope of a credential that is limited
/// to warehouses does not include the catalog itself.
pub(super) fn in_scope(identity: &Identity, resource: &Resource) -> bool {
    match (&identity.warehouses, resource.warehouse_name()) {
        (None, _) => true,
        (Some(warehouses), Some(name)) => warehouses.contains(name),
        (Some(_), None) => false,
    }
}
