//! Decisions that were made before.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use super::decide::{Decision, Request};
use super::facts::Asks;
use super::policy_set::{PolicySet, Revision};
use super::resource::{Kind, Node, Resource};
use crate::model::principal::Identity;
use crate::telemetry::cache::{CacheRequests, CacheUsage};
use crate::telemetry::collection::{Collection, attributes};
use crate::telemetry::instruments::{Histograms, SECONDS};

const EVALUATIONS: &str = "slateberg.policy.evaluation.duration";

/// Decisions by everything that they depend on: a change of any of it is another question, so that nothing
/// here can be out of date.
#[derive(Debug)]
pub struct DecisionCache {
    decisions: Cache<Key, Arc<Decision>>,
    requests: CacheRequests,
    /// What Cedar takes for a decision, by action.
    evaluations: Histograms<&'static str>,
}

/// Everything that a decision depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Question<'a> {
    revision: Revision,
    identity: &'a Arc<Identity>,
    action: &'static str,
    kind: Kind,
    names: Names<'a>,
    /// Of every level, if any policy asks for them.
    attributes: Option<Known<'a>>,
    source_address: Option<IpAddr>,
    client: Option<&'a str>,
}

/// The names of the levels.
#[derive(Debug)]
struct Names<'a>(&'a [Node]);

/// What is known of the levels.
#[derive(Debug)]
struct Known<'a>(&'a [Node]);

/// A question of which only the name is left open, by everything else that the answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The same question for what the names are in.
    container: Key,
    /// What the names are those of.
    kind: Kind,
}

/// A question that is kept.
#[derive(Debug, Clone)]
struct Key {
    revision: Revision,
    identity: Arc<Identity>,
    action: &'static str,
    resource: Resource,
    attributes: bool,
    source_address: Option<IpAddr>,
    client: Option<String>,
}

impl DecisionCache {
    /// A cache of at most so many decisions.
    pub fn new(decisions_max: usize) -> Self {
        Self {
            decisions: Cache::new(decisions_max),
            requests: CacheRequests::default(),
            evaluations: Histograms::new(SECONDS),
        }
    }

    /// Tells what is measured.
    pub fn collect(&self, into: &mut Collection) {
        let CacheUsage { hits, misses, .. } = self.requests.usage(0);
        let help = "Decisions asked of the cache.";
        for (result, count) in [("hit", hits), ("miss", misses)] {
            let series = attributes([("result", result)]);
            into.counter("slateberg.decision.cache.requests", "{request}", help, series, count);
        }
        let help = "What the evaluation of policies took for a decision.";
        into.declare_histogram(EVALUATIONS, "s", help);
        for (action, distribution) in self.evaluations.read() {
            let series = attributes([("action", action)]);
            into.histogram(EVALUATIONS, "s", help, series, distribution);
        }
    }

    /// Decides, or remembers. Where policies ask for the time, nothing is remembered.
    pub fn decide(
        &self,
        policies: &PolicySet,
        action: &'static str,
        request: Request<'_>,
    ) -> Arc<Decision> {
        let asks = policies.asks(action);
        if asks.time {
            return Arc::new(self.evaluations.timed(action, || policies.decide(action, request)));
        }
        let question = Question::of(policies.revision(), asks, action, request);
        let known = self.decisions.get(&question);
        self.requests.count(known.is_some());
        if let Some(known) = known {
            return known;
        }
        let evaluated = self.evaluations.timed(action, || policies.decide(action, request));
        let decision = Arc::new(evaluated);
        self.decisions.insert(question.kept(request.resource), Arc::clone(&decision));
        decision
    }
}

impl PageKey {
    /// What the answer for names of a kind in a container depends on, besides those names and what is known
    /// of them. None where policies ask for the time.
    pub(super) fn of(
        policies: &PolicySet,
        action: &'static str,
        container: Request<'_>,
        kind: Kind,
    ) -> Option<Self> {
        let asks = policies.asks(action);
        if asks.time {
            return None;
        }
        let question = Question::of(policies.revision(), asks, action, container);
        Some(Self { container: question.kept(container.resource), kind })
    }
}

impl<'a> Question<'a> {
    fn of(revision: Revision, asks: Asks, action: &'static str, request: Request<'a>) -> Self {
        let Request { identity, resource, context } = request;
        let nodes = resource.nodes();
        Self {
            revision,
            identity,
            action,
            kind: resource.kind(),
            names: Names(nodes),
            attributes: asks.attributes.then_some(Known(nodes)),
            source_address: context.source_address.filter(|_| asks.source_address),
            client: context.client.as_deref().filter(|_| asks.client),
        }
    }

    fn kept(&self, resource: &Resource) -> Key {
        Key {
            revision: self.revision,
            identity: Arc::clone(self.identity),
            action: self.action,
            resource: resource.clone(),
            attributes: self.attributes.is_some(),
            source_address: self.source_address,
            client: self.client.map(ToOwned::to_owned),
        }
    }
}

impl Key {
    fn question(&self) -> Question<'_> {
        let nodes = self.resource.nodes();
        Question {
            revision: self.revision,
            identity: &self.identity,
            action: self.action,
            kind: self.resource.kind(),
            names: Names(nodes),
            attributes: self.attributes.then_some(Known(nodes)),
            source_address: self.source_address,
            client: self.client.as_deref(),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.question() == other.question()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.question().hash(state);
    }
}

impl Equivalent<Key> for Question<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.question()
    }
}

impl PartialEq for Names<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|node| &node.name).eq(other.0.iter().map(|node| &node.name))
    }
}

impl Eq for Names<'_> {}

impl Hash for Names<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.0.len());
        self.0.iter().for_each(|node| node.name.hash(state));
    }
}

impl PartialEq for Known<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|node| &node.attributes).eq(other.0.iter().map(|node| &node.attributes))
    }
}

impl Eq for Known<'_> {}

impl Hash for Known<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|node| node.attributes.hash(state));
    }
}
