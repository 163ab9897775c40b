//! The lockout guard: no change of policies may leave the catalog without anybody who can change them.

use std::sync::Arc;

use super::action::{Action, ManagePolicies};
use super::context::Context;
use super::decide::Request;
use super::policy_set::PolicySet;
use super::resource::Resource;
use crate::model::principal::Identity;

/// Why a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "after this change nobody could manage policies: keep a permit for ManagePolicies on the catalog"
)]
pub struct LockedOut;

/// Refuses policies that would leave nobody who may manage them. `candidates` are all whom the catalog knows
/// to exist: whoever asks for the change, and the API keys that have not been revoked. Whom only an outside
/// issuer knows does not count, since the catalog cannot tell that there is such a person.
pub fn check(
    policies: &PolicySet,
    candidates: &[Arc<Identity>],
    context: &Context,
) -> Result<(), LockedOut> {
    let catalog = Resource::catalog();
    let manages = |identity: &Arc<Identity>| {
        let request = Request { identity, resource: &catalog, context };
        policies.decide(ManagePolicies::NAME, request).allow
    };
    candidates.iter().any(manages).then_some(()).ok_or(LockedOut)
}
