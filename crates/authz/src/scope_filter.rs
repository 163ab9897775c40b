//! Selects the policies whose scopes can match a request. So the cost of a decision depends on the
//! policies for its principal, not on the number of all grants.

use std::borrow::Cow;
use std::collections::HashSet;

use cedar_policy::{EntityUid, PolicySet as CedarSet, ResourceConstraint};

use super::policy_set::PolicySet;
use super::rules::Rule;

/// Maximum number of policies that are evaluated without a selection. For such a small set, a
/// selection would cost as much as it saves.
const CHOOSE_FROM: usize = 32;

/// Principal, action and resource, each with its parents.
pub(super) struct Scope<'a> {
    pub(super) principal: &'a EntityUid,
    pub(super) memberships: &'a HashSet<EntityUid>,
    pub(super) action: &'a EntityUid,
    pub(super) groups: &'a HashSet<EntityUid>,
    pub(super) resource: &'a EntityUid,
    /// The resource and its parents.
    pub(super) within: &'a HashSet<EntityUid>,
}

impl PolicySet {
    /// Returns all policies that can match, and possibly more.
    pub(super) fn relevant(&self, scope: &Scope<'_>) -> Cow<'_, CedarSet> {
        if self.rules.len() <= CHOOSE_FROM {
            return Cow::Borrowed(&self.cedar);
        }
        let rules = self.by_principal.about(scope.principal, scope.memberships);
        let rules = rules.filter_map(|at| self.rules.get(at));
        let relevant: Vec<_> = rules.filter(|rule| rule.could_match(scope)).collect();
        // Copying more than a quarter of the policies costs more than evaluating all of them.
        if relevant.len() * 4 > self.rules.len() {
            return Cow::Borrowed(&self.cedar);
        }
        let policies = relevant.into_iter().map(|rule| rule.policy.clone());
        // All policies are from one set, so their ids are unique.
        match CedarSet::from_policies(policies) {
            Ok(policies) => Cow::Owned(policies),
            Err(_) => Cow::Borrowed(&self.cedar),
        }
    }
}

impl Rule {
    fn could_match(&self, scope: &Scope<'_>) -> bool {
        self.covers_principal(scope.principal, scope.memberships)
            && self.covers_action(scope.action, scope.groups)
            && self.covers_resource(scope.resource, scope.within)
    }

    /// Whether a resource is within the scope.
    fn covers_resource(&self, resource: &EntityUid, within: &HashSet<EntityUid>) -> bool {
        match &self.resource {
            ResourceConstraint::Any => true,
            ResourceConstraint::Eq(one) => one == resource,
            ResourceConstraint::In(one) => within.contains(one),
            ResourceConstraint::Is(name) => name == resource.type_name(),
            ResourceConstraint::IsIn(name, one) => {
                name == resource.type_name() && within.contains(one)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bundled::default_policies;
    use crate::context::Context;
    use crate::decide::Request;
    use crate::grants::{Grant, Grantee, GranteeKind};
    use crate::policy_file::PolicyFile;
    use crate::resource::{Kind, Resource};
    use crate::schema::Schema;
    use slateberg_model::principal::{Identity, IdentityKind, Method};

    const POLICIES: &str = r#"
        @id("pii") forbid (principal, action == Action::"Load", resource in Namespace::"w/n1")
        unless { principal in Group::"g1" };
        @id("users") permit (principal is User, action in Action::"Browse", resource is Warehouse);
        @id("team") permit (principal is User in Group::"g2", action, resource is Table in Warehouse::"v");
        @id("one") permit (principal == User::"u1", action in [Action::"Drop", Action::"Load"],
                           resource == Table::"w/n2/t2");
        @id("overflow") forbid (principal in Group::"g3", action == Action::"Drop", resource)
        when { 9223372036854775807 + 1 > 0 };
    "#;

    /// Returns many grants, with every kind of grantee and resource. Any single request matches
    /// only a few of them.
    fn grants() -> Vec<Grant> {
        let mut grants = Vec::new();
        let templates = ["grant-read", "grant-write", "grant-own", "grant-browse"];
        for n in 0..60_usize {
            let (kind, id) = match n % 4 {
                0 => (GranteeKind::User, format!("u{}", n % 3)),
                1 => (GranteeKind::Role, format!("r{}", n % 5)),
                2 => (GranteeKind::Group, format!("g{}", n % 4)),
                _ => (GranteeKind::ServiceAccount, format!("s{}", n % 3)),
            };
            let path = |kind, path: String| Resource::parse(kind, &path).expect("it is a path");
            let resource = match n % 3 {
                0 => path(Kind::Namespace, format!("w/n{}", n % 7)),
                1 => path(Kind::Table, format!("w/n{}/t{}", n % 4, n % 5)),
                _ => path(Kind::Warehouse, ["w", "v"][n % 2].to_owned()),
            };
            let template = templates[n % templates.len()].to_owned();
            grants.push(Grant { template, grantee: Grantee { kind, id }, resource });
        }
        grants
    }

    fn identity(n: usize) -> Arc<Identity> {
        let (kind, id) = match n % 2 {
            0 => (IdentityKind::User, format!("u{}", n % 3)),
            _ => (IdentityKind::ServiceAccount, format!("s{}", n % 3)),
        };
        Arc::new(Identity {
            kind,
            name: id.clone(),
            id,
            groups: (n % 5 < 4).then(|| format!("g{}", n % 5)).into_iter().collect(),
            roles: [format!("r{}", n % 6), ["reader", "none"][n % 2].to_owned()].into(),
            method: Method::Jwt,
            warehouses: None,
        })
    }

    #[test]
    fn skipped_policies_do_not_change_decisions() {
        let mut files = default_policies();
        files.push(PolicyFile { name: "more.cedar".to_owned(), text: POLICIES.to_owned() });
        let schema = Arc::new(Schema::bundled());
        let set = PolicySet::build(schema, &files, &grants()).expect("they are valid");
        assert!(set.len() > CHOOSE_FROM, "otherwise no policies are selected");
        let resources = [
            (Kind::Warehouse, "w"),
            (Kind::Namespace, "w/n1"),
            (Kind::Namespace, "w/n1/deeper"),
            (Kind::Table, "w/n1/t1"),
            (Kind::Table, "w/n2/t2"),
            (Kind::Table, "v/n/t"),
            (Kind::View, "w/n3/t"),
        ]
        .map(|(kind, path)| Resource::parse(kind, path).expect("it is a path"));
        let context = Context::default();
        let (mut chosen, mut allowed) = (0, 0);
        for n in 0..30 {
            let identity = &identity(n);
            for resource in &resources {
                for action in set.schema().actions() {
                    let request = Request { identity, resource, context: &context };
                    let decision = set.decide(action, request);
                    assert_eq!(
                        decision,
                        set.decide_by_all(action, request),
                        "{n} {action} {resource}"
                    );
                    allowed += usize::from(decision.allow);
                    chosen += 1;
                }
            }
        }
        assert!(
            allowed > 100 && allowed < chosen - 100,
            "some requests are allowed, some denied: {allowed}"
        );
    }
}
