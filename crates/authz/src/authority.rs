//! The policies in force, and whoever asks them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::action::{Action, Commit, Load};
use super::cache::{DecisionCache, PageKey};
use super::commit_kind::CommitKind;
use super::context::Context;
use super::decide::{Decision, Denied, Request};
use super::page::PageQuestion;
use super::permit::Permit;
use super::policy_set::PolicySet;
use super::resource::{Kind, Resource};
use slateberg_model::principal::{Identity, Principal};
use slateberg_telemetry::collection::Collection;

/// Whoever wants a permit asks here. A new set of policies decides from the next question on.
#[derive(Debug)]
pub struct Authority {
    in_force: ArcSwap<PolicySet>,
    decisions: DecisionCache,
}

/// Who answers for a principal.
pub enum Asked<'a> {
    /// Nobody is known on a server that was started without authentication: everything is allowed.
    Nobody(Unrestricted),
    /// Policies.
    Policies(Asking<'a>),
}

/// Gives every permit.
pub struct Unrestricted(());

/// Questions by one principal, all answered by the same policies.
pub struct Asking<'a> {
    decisions: &'a DecisionCache,
    policies: Guard<Arc<PolicySet>>,
    identity: &'a Arc<Identity>,
    context: &'a Context,
}

impl Authority {
    /// Decides by these policies, and remembers at most so many decisions.
    pub fn new(policies: PolicySet, decisions_max: usize) -> Self {
        let in_force = ArcSwap::from_pointee(policies);
        Self { in_force, decisions: DecisionCache::new(decisions_max) }
    }

    /// Tells what is measured.
    pub fn collect(&self, into: &mut Collection) {
        self.decisions.collect(into);
    }

    /// The policies in force.
    pub fn policies(&self) -> Arc<PolicySet> {
        self.in_force.load_full()
    }

    /// Puts other policies in force.
    pub fn replace(&self, policies: PolicySet) {
        self.in_force.store(Arc::new(policies));
    }

    /// Who answers for this principal. Background tasks have permits of their own, and no way to borrow
    /// another's.
    pub fn ask<'a>(
        &'a self,
        principal: &'a Principal,
        context: &'a Context,
    ) -> Result<Asked<'a>, Denied> {
        let identity = match principal {
            Principal::Anonymous => return Ok(Asked::Nobody(Unrestricted(()))),
            Principal::Task(name) => return Err(Denied { action: name, decision: None }),
            Principal::Identified(identity) => identity,
        };
        let decisions = &self.decisions;
        Ok(Asked::Policies(Asking { decisions, policies: self.in_force.load(), identity, context }))
    }

    /// Decides whether `principal` may do `A` to `resource`, and gives the permit if so.
    pub fn authorize<A: Action>(
        &self,
        principal: &Principal,
        resource: &Resource,
        context: &Context,
    ) -> Result<Permit<A>, Denied> {
        match self.ask(principal, context)? {
            Asked::Nobody(unrestricted) => Ok(unrestricted.permit()),
            Asked::Policies(asking) => asking.permit(resource),
        }
    }
}

impl Unrestricted {
    /// The permit to do `A`, to whatever.
    pub fn permit<A: Action>(&self) -> Permit<A> {
        Permit::granted()
    }
}

impl Asking<'_> {
    /// The permit to do `A` to `resource`, or the decision against it.
    pub fn permit<A: Action>(&self, resource: &Resource) -> Result<Permit<A>, Denied> {
        self.decide(A::NAME, resource).map(Permit::by)
    }

    /// The permit to commit changes of these kinds, all of them. A commit without any tells no more than a
    /// load, and needs the same.
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

    /// Whether `A` may be done to `resource`.
    pub fn may<A: Action>(&self, resource: &Resource) -> bool {
        self.decide(A::NAME, resource).is_ok()
    }

    /// Whether any policy asks for more than names where one of these actions is to be done, so that the
    /// resource has to come with its attributes.
    pub fn wants_attributes(&self, actions: &[&str]) -> bool {
        actions.iter().any(|action| self.policies.asks(action).attributes)
    }

    /// Asks which of the names in `container` may have `A` done to them.
    pub fn page<A: Action>(&self, container: &Resource, kind: Kind) -> PageQuestion<'_> {
        let policies = &self.policies;
        PageQuestion::new(policies, A::NAME, self.identity, container, kind, self.context)
    }

    /// By what the answer for a page can be remembered, if it can.
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

/// Two decisions for one permit.
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
