//! The policies in force, and the decisions that were made by them.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use super::action::{Action, Commit, Load};
use super::cache::DecisionCache;
use super::commit_kind::CommitKind;
use super::context::Context;
use super::decide::{Denied, Request};
use super::permit::Permit;
use super::policy_set::PolicySet;
use super::resource::Resource;
use crate::model::principal::Principal;

/// Whoever asks for a permit asks here. A new set of policies decides from the next question on.
#[derive(Debug)]
pub struct Authority {
    in_force: RwLock<Arc<PolicySet>>,
    decisions: DecisionCache,
}

impl Authority {
    /// Decides by these policies, and remembers at most so many decisions.
    pub fn new(policies: PolicySet, decisions_max: usize) -> Self {
        let in_force = RwLock::new(Arc::new(policies));
        Self { in_force, decisions: DecisionCache::new(decisions_max) }
    }

    /// The policies in force.
    pub fn policies(&self) -> Arc<PolicySet> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other policies in force.
    pub fn replace(&self, policies: PolicySet) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }

    /// Decides whether `principal` may do `A` to `resource`, and gives the permit if so.
    pub fn authorize<A: Action>(
        &self,
        principal: &Principal,
        resource: &Resource,
        context: &Context,
    ) -> Result<Permit<A>, Denied> {
        self.allow(principal, resource, context, [A::NAME])?;
        Ok(Permit::granted())
    }

    /// Decides whether `principal` may commit changes of these kinds, all of them, and gives the permit if
    /// so. A commit without any tells no more than a load, and needs the same.
    pub fn authorize_commit(
        &self,
        principal: &Principal,
        resource: &Resource,
        context: &Context,
        kinds: &BTreeSet<CommitKind>,
    ) -> Result<Permit<Commit>, Denied> {
        let loads = kinds.is_empty().then_some(Load::NAME);
        let actions = kinds.iter().map(|kind| kind.action()).chain(loads);
        self.allow(principal, resource, context, actions)?;
        Ok(Permit::granted())
    }

    /// Decides whether `principal` may do all of these to `resource`, by one set of policies.
    fn allow(
        &self,
        principal: &Principal,
        resource: &Resource,
        context: &Context,
        actions: impl IntoIterator<Item = &'static str>,
    ) -> Result<(), Denied> {
        let identity = match principal {
            // Nobody is known on a server that was started without authentication.
            Principal::Anonymous => return Ok(()),
            // Background tasks have permits of their own, and no way to borrow another's.
            Principal::Task(_) => return Err(Denied { decision: None }),
            Principal::Identified(identity) => identity,
        };
        let policies = self.policies();
        for action in actions {
            let request = Request { identity, resource, context };
            let decision = self.decisions.decide(&policies, action, request);
            if !decision.allow {
                return Err(Denied { decision: Some(decision) });
            }
        }
        Ok(())
    }
}
