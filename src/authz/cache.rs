//! Decisions that were made before.

use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::sync::Cache;

use super::context::Context;
use super::decide::{Decision, Request};
use super::facts::Asks;
use super::policy_set::{PolicySet, Revision};
use super::resource::{Attributes, Kind, Resource};
use crate::model::principal::Identity;

/// Decisions by everything that they depend on: a change of any of it is another key, so that nothing here
/// can be out of date.
#[derive(Debug)]
pub struct DecisionCache {
    decisions: Cache<Key, Arc<Decision>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    revision: Revision,
    identity: Arc<Identity>,
    action: &'static str,
    kind: Kind,
    resource: String,
    /// Of every level, if any policy asks for them.
    attributes: Option<Vec<Arc<Attributes>>>,
    source_address: Option<IpAddr>,
    client: Option<String>,
}

impl DecisionCache {
    /// A cache of at most so many decisions.
    pub fn new(decisions_max: usize) -> Self {
        Self { decisions: Cache::new(decisions_max) }
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
            return Arc::new(policies.decide(action, request));
        }
        let key = Key::of(policies.revision(), asks, action, request);
        if let Some(known) = self.decisions.get(&key) {
            return known;
        }
        let decision = Arc::new(policies.decide(action, request));
        self.decisions.insert(key, Arc::clone(&decision));
        decision
    }
}

impl Key {
    fn of(revision: Revision, asks: Asks, action: &'static str, request: Request<'_>) -> Self {
        let Request { identity, resource, context } = request;
        let Context { source_address, client, now_ms: _ } = context;
        Self {
            revision,
            identity: Arc::clone(identity),
            action,
            kind: resource.kind(),
            resource: resource.id(),
            attributes: asks.attributes.then(|| attributes(resource)),
            source_address: source_address.filter(|_| asks.source_address),
            client: client.clone().filter(|_| asks.client),
        }
    }
}

fn attributes(resource: &Resource) -> Vec<Arc<Attributes>> {
    resource.nodes().iter().map(|node| Arc::clone(&node.attributes)).collect()
}
