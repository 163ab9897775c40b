//! Principals that the policies in force mention.

use std::collections::BTreeSet;

use cedar_policy::{Effect, EntityUid, PrincipalConstraint};

use super::policy_set::PolicySet;
use super::rules::Rule;
use slateberg_model::principal::Identity;

impl PolicySet {
    /// Returns the roles that policies and grants in force mention.
    pub fn roles(&self) -> BTreeSet<String> {
        let named = self.rules.iter().flat_map(|rule| self.principals_of(rule));
        let roles = named.filter(|uid| uid.type_name() == &self.schema.types.role);
        roles.map(|uid| uid.id().unescaped().to_owned()).collect()
    }

    /// Whether no permit policy in force can match a principal, whatever the action, resource and
    /// context. A permit policy without a principal in its scope can match every principal.
    pub fn permits_nothing_to(&self, identity: &Identity) -> bool {
        let principal = self.schema.principal(identity);
        let memberships = self.schema.memberships(identity);
        let mut rules = self.by_principal.about(&principal, &memberships);
        !rules.any(|at| {
            let rule = self.rules.get(at).filter(|rule| rule.effect == Effect::Permit);
            rule.is_some_and(|rule| rule.covers_principal(&principal, &memberships))
        })
    }

    /// Returns the entities that a policy mentions. For a grant, returns only the grantee: there
    /// can be many grants, and their templates mention no roles.
    fn principals_of(&self, rule: &Rule) -> Vec<EntityUid> {
        if self.positions.contains_key(rule.id()) {
            return rule.policy.entity_literals();
        }
        match &rule.principal {
            PrincipalConstraint::Eq(one)
            | PrincipalConstraint::In(one)
            | PrincipalConstraint::IsIn(_, one) => vec![one.clone()],
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => Vec::new(),
        }
    }
}
