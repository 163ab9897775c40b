//! Converts decisions of policies to the form of responses.

use std::sync::Arc;

use serde_json::Value;

use super::policies::{policy_effect, policy_origin};
use slateberg_catalog::policies::explain::{self as catalog, Explained, Permissions};
use slateberg_catalog::policies::listing::PolicyInForce;
use slateberg_management::decisions::{
    AuthenticationMethod, AuthorizeResponse, DecidingPolicy, Decision, PermissionsResponse,
    Principal, PrincipalKind, PrincipalSelector, ReadRule, Remedies,
};
use slateberg_model::expression::Expression;
use slateberg_model::principal::{ANY_USER_ID, Identity, IdentityKind, Method};
use slateberg_model::read_restrictions::{self as model, ReadRules};

/// Returns the identity that a selector without a key describes. `None` if its members contradict
/// each other.
pub fn identity(selector: PrincipalSelector) -> Option<Identity> {
    let (kind, id) = match (selector.user, selector.service_account, &selector.key) {
        (Some(id), None, None) => (IdentityKind::User, id),
        (None, Some(id), None) => (IdentityKind::ServiceAccount, id),
        // If only roles or groups are given, the identity is an arbitrary user who has them.
        (None, None, None) if !(selector.roles.is_empty() && selector.groups.is_empty()) => {
            (IdentityKind::User, ANY_USER_ID.to_owned())
        }
        _ => return None,
    };
    let method = match (selector.authentication, kind) {
        (Some(AuthenticationMethod::Jwt), _) | (None, IdentityKind::User) => Method::Jwt,
        (Some(AuthenticationMethod::ApiKey), _) | (None, IdentityKind::ServiceAccount) => {
            Method::ApiKey
        }
        (Some(AuthenticationMethod::Mtls), _) => Method::Mtls,
        (Some(AuthenticationMethod::Embedded), _) => Method::Embedded,
    };
    Some(Identity {
        kind,
        name: id.clone(),
        id,
        groups: selector.groups,
        roles: selector.roles,
        method,
        warehouses: selector.warehouses,
    })
}

fn principal(identity: &Identity) -> Principal {
    Principal {
        kind: match identity.kind {
            IdentityKind::User => PrincipalKind::User,
            IdentityKind::ServiceAccount => PrincipalKind::ServiceAccount,
        },
        id: identity.id.clone(),
        name: identity.name.clone(),
        roles: identity.roles.clone(),
        groups: identity.groups.clone(),
    }
}

fn deciding_policy(policy: PolicyInForce) -> DecidingPolicy {
    DecidingPolicy {
        id: policy.id,
        effect: policy_effect(policy.forbids),
        origin: policy_origin(policy.origin),
        description: policy.description,
    }
}

fn read_rules(rules: Option<&ReadRules>) -> Option<Vec<ReadRule>> {
    let rule = |rule: &Arc<model::ReadRule>| ReadRule {
        policy: rule.policy.clone(),
        row_filter: rule.filter.as_ref().map_or(Value::Bool(true), Expression::to_json),
        column_masks: rule
            .masks
            .iter()
            .map(|(name, mask)| (name.clone(), mask.name().to_owned()))
            .collect(),
    };
    Some(rules?.rules().iter().map(rule).collect())
}

fn remedies(remedies: catalog::Remedies) -> Option<Remedies> {
    let catalog::Remedies { roles, grants } = remedies;
    (!(roles.is_empty() && grants.is_empty())).then_some(Remedies { roles, grants })
}

/// Returns the decision on an action.
pub fn authorize_response(action: String, explained: Explained) -> AuthorizeResponse {
    AuthorizeResponse {
        decision: if explained.allow { Decision::Allow } else { Decision::Deny },
        policies: explained.policies.into_iter().map(deciding_policy).collect(),
        read_rules: read_rules(explained.read_rules.as_deref()),
        principal: principal(&explained.identity),
        permitted_with: remedies(explained.remedies),
        resource_exists: explained.exists,
        action,
        resource: explained.resource,
        revision: explained.revision,
        in_force: explained.in_force,
    }
}

/// Returns the permitted actions of a principal.
pub fn permissions_response(permissions: Permissions) -> PermissionsResponse {
    PermissionsResponse {
        principal: principal(&permissions.identity),
        resource: permissions.resource,
        actions: permissions.actions,
        read_rules: read_rules(permissions.read_rules.as_deref()),
        in_force: permissions.in_force,
    }
}
