//! Stores the policies in force, and decides by them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::action::{Action, Commit, Load, ReadData, ReadRestricted};
use super::cache::{DecisionCache, PageKey};
use super::commit_kind::CommitKind;
use super::context::Context;
use super::decide::{Decision, Denied, Request};
use super::page::PageQuestion;
use super::permit::Permit;
use super::policy_set::PolicySet;
use super::resource::{Kind, Resource};
use slateberg_model::principal::{Identity, MAINTENANCE_TASK, Principal};
use slateberg_telemetry::collection::Collection;

/// Issues permits. After [`replace`](Self::replace), new deciders use the new policies.
#[derive(Debug)]
pub struct Authority {
    in_force: ArcSwap<PolicySet>,
    decisions: DecisionCache,
}

/// Decides for a principal.
pub enum Decider<'a> {
    /// A server without authentication allows everything to anonymous callers. The maintenance of
    /// tables is allowed as well.
    Unrestricted(Unrestricted),
    /// Policies decide.
    Policies(PrincipalDecider<'a>),
}

/// Issues permits without evaluating policies.
pub struct Unrestricted(());

/// Decides for one principal. A decider always uses the policies that were in force when the
/// decider was created.
pub struct PrincipalDecider<'a> {
    decisions: &'a DecisionCache,
    policies: Guard<Arc<PolicySet>>,
    identity: &'a Arc<Identity>,
    context: &'a Context,
}

impl Authority {
    /// Creates an authority that decides by these policies and caches at most `decisions_max`
    /// decisions.
    pub fn new(policies: PolicySet, decisions_max: usize) -> Self {
        let in_force = ArcSwap::from_pointee(policies);
        Self { in_force, decisions: DecisionCache::new(decisions_max) }
    }

    /// Reports the metrics.
    pub fn collect(&self, into: &mut Collection) {
        self.decisions.collect(into);
    }

    /// Returns the policies in force.
    pub fn policies(&self) -> Arc<PolicySet> {
        self.in_force.load_full()
    }

    /// Replaces the policies in force.
    pub fn replace(&self, policies: PolicySet) {
        self.in_force.store(Arc::new(policies));
    }

    /// Returns the decider for a principal. Errors for a background task, which gets its permits
    /// from [`Permit::for_task`] instead. The maintenance of tables is the only exception, because
    /// it commits like a request.
    pub fn ask<'a>(
        &'a self,
        principal: &'a Principal,
        context: &'a Context,
    ) -> Result<Decider<'a>, Denied> {
        let identity = match principal {
            Principal::Anonymous => return Ok(Decider::Unrestricted(Unrestricted(()))),
            // The operator and the owner of the table have enabled the maintenance.
            Principal::Task(MAINTENANCE_TASK) => {
                return Ok(Decider::Unrestricted(Unrestricted(())));
            }
            Principal::Task(name) => return Err(Denied { action: name, decision: None }),
            Principal::Identified(identity) => identity,
        };
        let decisions = &self.decisions;
        Ok(Decider::Policies(PrincipalDecider {
            decisions,
            policies: self.in_force.load(),
            identity,
            context,
        }))
    }

    /// Decides whether `principal` may do `A` to `resource`. Returns the permit, or the denial.
    pub fn authorize<A: Action>(
        &self,
        principal: &Principal,
        resource: &Resource,
        context: &Context,
    ) -> Result<Permit<A>, Denied> {
        match self.ask(principal, context)? {
            Decider::Unrestricted(unrestricted) => Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking.permit(resource),
        }
    }
}

impl Unrestricted {
    /// Returns the permit for `A` on any resource.
    pub fn permit<A: Action>(&self) -> Permit<A> {
        Permit::granted()
    }
}

impl PrincipalDecider<'_> {
    /// Returns the permit for `A` on `resource`, or the denial.
    pub fn permit<A: Action>(&self, resource: &Resource) -> Result<Permit<A>, Denied> {
        self.decide(A::NAME, resource).map(Permit::by)
    }

    /// Returns the permit to commit changes of all these kinds. Without any kind, the policies must
    /// allow `Load`, because a commit without changes reveals no more than a load.
    pub fn permit_commit(
        &self,
        resource: &Resource,
        kinds: &BTreeSet<CommitKind>,
    ) -> Result<Permit<Commit>, Denied> {
        let mut kinds = kinds.iter().map(|kind| kind.action());
        let mut all = self.decide(kinds.next().unwrap_or(Load::NAME), resource)?;
        for action in kinds {
            let next = self.decide(action, resource)?;
            all = both(all, &next);
        }
        Ok(Permit::by(all))
    }

    /// Whether `A` is allowed on `resource`.
    pub fn may<A: Action>(&self, resource: &Resource) -> bool {
        self.decide(A::NAME, resource).is_ok()
    }

    /// Whether a policy on one of these actions uses attributes of the resource, and not only
    /// names. If so, the caller must load the attributes of the resource.
    pub fn wants_attributes(&self, actions: &[&str]) -> bool {
        actions.iter().any(|action| self.policies.asks(action).attributes)
    }

    /// Whether a policy on a load, or on the files of a table, uses the views through which the
    /// client reads.
    pub fn asks_for_views(&self) -> bool {
        let actions = [Load::NAME, ReadData::NAME, ReadRestricted::NAME];
        actions.iter().any(|action| self.policies.asks(action).referenced_by)
    }

    /// Starts to decide for which names in `container` the principal may do `A`.
    pub fn page<A: Action>(&self, container: &Resource, kind: Kind) -> PageQuestion<'_> {
        let policies = &self.policies;
        PageQuestion::new(policies, A::NAME, self.identity, container, kind, self.context)
    }

    /// Returns the cache key of the result for a page. `None` if the result cannot be cached.
    pub fn page_key<A: Action>(&self, container: &Resource, kind: Kind) -> Option<PageKey> {
        let request =
            Request { identity: self.identity, resource: container, context: self.context };
        PageKey::of(&self.policies, A::NAME, request, kind)
    }

    fn decide(&self, action: &'static str, resource: &Resource) -> Result<Arc<Decision>, Denied> {
        let request = Request { identity: self.identity, resource, context: self.context };
        let decision = self.decisions.decide(&self.policies, action, request);
        if decision.allow { Ok(decision) } else { Err(Denied { action, decision: Some(decision) }) }
    }
}

/// Combines two decisions, both of which allow the request, into one decision for a permit.
fn both(one: Arc<Decision>, other: &Decision) -> Arc<Decision> {
    if one.policies == other.policies {
        return one;
    }
    let mut all = Arc::unwrap_or_clone(one);
    all.policies.extend_from_slice(&other.policies);
    all.policies.sort();
    all.policies.dedup();
    Arc::new(all)
}
