//! Protection against lockout. After a change of policies, a principal must still be able to manage
//! policies. After the revocation of an API key, a principal must still be able to manage keys.

use std::sync::Arc;

use super::action::{Action, ManagePolicies};
use super::context::Context;
use super::decide::Request;
use super::policy_set::PolicySet;
use super::resource::Resource;
use slateberg_model::principal::Identity;

/// Reason for the rejection of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "after this change no principal could manage policies: keep a permit for ManagePolicies on the catalog"
)]
pub struct LockedOut;

/// Whether one of `candidates` may do `A` to the catalog. Candidates are the principals that
/// certainly exist: the caller and the valid API keys. Users of issuers are not candidates.
pub fn any_may<A: Action>(
    policies: &PolicySet,
    candidates: &[Arc<Identity>],
    context: &Context,
) -> bool {
    let catalog = Resource::catalog();
    let may = |identity: &Arc<Identity>| {
        let request = Request { identity, resource: &catalog, context };
        policies.decide(A::NAME, request).allow
    };
    candidates.iter().any(may)
}

/// Rejects policies under which none of `candidates` may manage policies.
pub fn check(
    policies: &PolicySet,
    candidates: &[Arc<Identity>],
    context: &Context,
) -> Result<(), LockedOut> {
    any_may::<ManagePolicies>(policies, candidates, context).then_some(()).ok_or(LockedOut)
}
