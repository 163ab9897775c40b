//! Converts callers and the origin of a clone to the form of responses.

use std::collections::BTreeSet;

use slateberg_catalog::CloneOf;
use slateberg_management::identity::{Caller, CallerKind, CallerMethod, CloneOrigin};
use slateberg_model::principal::{IdentityKind, Method, Principal};

/// Returns the principal of a request.
pub fn caller(principal: &Principal) -> Caller {
    let Principal::Identified(identity) = principal else {
        let id = principal.id().to_owned();
        return Caller {
            kind: CallerKind::Anonymous,
            name: id.clone(),
            id,
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
            warehouses: None,
            method: CallerMethod::None,
        };
    };
    Caller {
        kind: match identity.kind {
            IdentityKind::User => CallerKind::User,
            IdentityKind::ServiceAccount => CallerKind::ServiceAccount,
        },
        id: identity.id.clone(),
        name: identity.name.clone(),
        groups: identity.groups.clone(),
        roles: identity.roles.clone(),
        warehouses: identity.warehouses.clone(),
        method: match identity.method {
            Method::Jwt => CallerMethod::Jwt,
            Method::ApiKey => CallerMethod::ApiKey,
            Method::Mtls => CallerMethod::Mtls,
            other @ Method::Embedded => CallerMethod::Other(other.name().to_owned()),
        },
    }
}

/// Returns the origin of a clone, without the location of its parent.
pub fn clone_origin(clone: &CloneOf) -> CloneOrigin {
    CloneOrigin {
        checkpoint: clone.checkpoint.clone(),
        as_of_ms: clone.as_of_ms,
        cloned_at_ms: clone.cloned_ms,
    }
}
