//! [`Rule`]: a policy with its parsed scope.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Effect, EntityUid, Policy, PrincipalConstraint, ResourceConstraint,
};

use super::conditions::Conditions;
use super::distinctions::Distinctions;
use super::policy_inputs::PolicyInputs;
use slateberg_model::read_restrictions::ReadRule;

/// A policy with its parsed scope, which shows quickly whether the policy can match a request.
#[derive(Debug)]
pub(super) struct Rule {
    /// The policy as a static policy, even for a grant.
    pub(super) policy: Policy,
    pub(super) effect: Effect,
    pub(super) principal: PrincipalConstraint,
    pub(super) action: ActionConstraint,
    pub(super) resource: ResourceConstraint,
    pub(super) asks: PolicyInputs,
    /// Resource attributes that the policy's conditions use. Names of a page with equal values of
    /// these attributes share one evaluation.
    pub(super) distinctions: Distinctions,
    /// The read restrictions from the policy's annotations. `None` if the policy has none.
    pub(super) read: Option<Arc<ReadRule>>,
}

impl Rule {
    pub(super) fn of(policy: Policy, read: Option<ReadRule>) -> Self {
        let conditions = Conditions::of(&policy);
        Self {
            effect: policy.effect(),
            principal: policy.principal_constraint(),
            action: policy.action_constraint(),
            resource: policy.resource_constraint(),
            asks: PolicyInputs::of(&conditions),
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

/// Whether a scope includes an action. `groups` are all groups that contain the action.
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

/// The policies of a set, by the principal in their scopes.
#[derive(Debug, Default)]
pub(super) struct ByPrincipal {
    named: HashMap<EntityUid, Vec<usize>>,
    /// Policies without a principal in their scopes.
    others: Vec<usize>,
}

impl ByPrincipal {
    pub(super) fn of(rules: &[Rule]) -> Self {
        let mut all = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            match &rule.principal {
                PrincipalConstraint::Eq(one)
                | PrincipalConstraint::In(one)
                | PrincipalConstraint::IsIn(_, one) => {
                    all.named.entry(one.clone()).or_default().push(at);
                }
                PrincipalConstraint::Any | PrincipalConstraint::Is(_) => all.others.push(at),
            }
        }
        all
    }

    /// Returns the positions of the policies whose scopes name the principal, one of its
    /// memberships, or no principal.
    pub(super) fn about<'a>(
        &'a self,
        principal: &'a EntityUid,
        memberships: &'a HashSet<EntityUid>,
    ) -> impl Iterator<Item = usize> + 'a {
        let whom = std::iter::once(principal).chain(memberships);
        let named = whom.filter_map(|one| self.named.get(one)).flatten();
        named.chain(&self.others).copied()
    }
}
