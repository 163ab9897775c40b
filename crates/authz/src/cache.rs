//! Cache of decisions.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::Equivalent;

use super::decide::{Decision, Request};
use super::policy_inputs::PolicyInputs;
use super::policy_set::{PolicySet, Revision};
use super::resource::{Kind, Node, Resource};
use slateberg_model::principal::Identity;
use slateberg_telemetry::cache::ByteCache;
use slateberg_telemetry::collection::{Collection, attributes};
use slateberg_telemetry::instruments::{Histograms, SECONDS};

const EVALUATIONS: &str = "slateberg.policy.evaluation.duration";
/// Maximum size of an entry that counts as one decision. A larger entry counts as several
/// decisions. This limits the memory of the cache, although entries contain values that clients
/// choose, such as the `User-Agent`.
const UNIT_BYTES: usize = 1 << 10;
/// Size of an entry without its principal, resource and policies.
const ENTRY_BYTES: usize = 384;
/// Size of a policy's id without its characters.
const POLICY_BYTES: usize = 40;

/// Caches decisions. The key of an entry contains everything that the decision depends on, so no
/// entry is ever stale.
#[derive(Debug)]
pub struct DecisionCache {
    decisions: ByteCache<Key, Arc<Decision>>,
    /// Durations of Cedar's evaluations, by action.
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
    /// Attributes of every level, if any policy uses them.
    attributes: Option<KnownAttributes<'a>>,
    source_address: Option<IpAddr>,
    client: Option<&'a str>,
    referenced_by: &'a [Resource],
}

/// The names of the levels.
#[derive(Debug)]
struct Names<'a>(&'a [Node]);

/// The attributes of the levels.
#[derive(Debug)]
struct KnownAttributes<'a>(&'a [Node]);

/// Everything that decisions about a page of names depend on, except the names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The request for the container of the names.
    container: Key,
    /// Kind of the named objects.
    kind: Kind,
}

/// Key of a cached decision.
#[derive(Debug, Clone)]
struct Key {
    revision: Revision,
    identity: Arc<Identity>,
    action: &'static str,
    resource: Resource,
    attributes: bool,
    source_address: Option<IpAddr>,
    client: Option<String>,
    referenced_by: Vec<Resource>,
}

/// Returns the size with which a decision counts towards the capacity of the cache. The size is
/// rounded up to whole units, which limits the number of small decisions.
fn counted_bytes(key: &Key, decision: &Decision) -> usize {
    let policies = decision.policies.iter().map(|id| id.len() + POLICY_BYTES);
    (key.bytes() + policies.sum::<usize>()).next_multiple_of(UNIT_BYTES)
}

impl DecisionCache {
    /// Creates a cache of at most `decisions_max` decisions and at most `decisions_max` KiB.
    pub fn new(decisions_max: usize) -> Self {
        Self {
            decisions: ByteCache::new((decisions_max * UNIT_BYTES) as u64, UNIT_BYTES as u64),
            evaluations: Histograms::new(SECONDS),
        }
    }

    /// Reports the metrics.
    pub fn collect(&self, into: &mut Collection) {
        self.decisions.usage().collect(into, "decision", "Decisions");
        let help = "Time of the evaluation of policies for a decision.";
        into.declare_histogram(EVALUATIONS, "s", help);
        for (action, distribution) in self.evaluations.read() {
            let series = attributes([("action", action)]);
            into.histogram(EVALUATIONS, "s", help, series, distribution);
        }
    }

    /// Returns the cached decision, or evaluates the policies. Does not cache decisions by policies
    /// that use the time.
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
        if let Some(known) = self.decisions.get(&question) {
            return known;
        }
        let key = question.key_of(request.resource);
        // Evaluates the request with the resource of the key, so that the decision depends only on
        // the key.
        let request = Request { resource: &key.resource, ..request };
        let decision =
            Arc::new(self.evaluations.timed(action, || policies.decide(action, request)));
        let bytes = counted_bytes(&key, &decision);
        self.decisions.insert(key, Arc::clone(&decision), bytes);
        decision
    }
}

impl PageKey {
    /// Returns the key under which the visible names of this kind in a container are cached. It
    /// contains everything that their visibility depends on, except the names and their attributes.
    /// `None` if policies use the time.
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
        Some(Self { container: question.key_of(container.resource), kind })
    }

    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.container.bytes()
    }
}

impl<'a> Question<'a> {
    fn of(
        revision: Revision,
        asks: PolicyInputs,
        action: &'static str,
        request: Request<'a>,
    ) -> Self {
        let Request { identity, resource, context } = request;
        let nodes = resource.nodes();
        Self {
            revision,
            identity,
            action,
            kind: resource.kind(),
            names: Names(nodes),
            attributes: asks.attributes.then_some(KnownAttributes(nodes)),
            source_address: context.source_address.filter(|_| asks.source_address),
            client: context.client.as_deref().filter(|_| asks.client),
            referenced_by: if asks.referenced_by { &context.referenced_by } else { &[] },
        }
    }

    fn key_of(&self, resource: &Resource) -> Key {
        Key {
            revision: self.revision,
            identity: Arc::clone(self.identity),
            action: self.action,
            resource: match self.attributes {
                Some(_) => resource.clone(),
                None => resource.by_names(),
            },
            attributes: self.attributes.is_some(),
            source_address: self.source_address,
            client: self.client.map(ToOwned::to_owned),
            referenced_by: self.referenced_by.to_vec(),
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
            attributes: self.attributes.then_some(KnownAttributes(nodes)),
            source_address: self.source_address,
            client: self.client.as_deref(),
            referenced_by: &self.referenced_by,
        }
    }

    /// Approximate size in bytes. Shared parts count in full.
    fn bytes(&self) -> usize {
        let client = self.client.as_ref().map_or(0, String::len);
        let views = self.referenced_by.iter().map(Resource::bytes).sum::<usize>();
        ENTRY_BYTES + self.identity.bytes() + self.resource.bytes() + client + views
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

impl PartialEq for KnownAttributes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|node| &node.attributes).eq(other.0.iter().map(|node| &node.attributes))
    }
}

impl Eq for KnownAttributes<'_> {}

impl Hash for KnownAttributes<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|node| node.attributes.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::policy_file::PolicyFile;
    use crate::resource::Attributes;
    use crate::schema::Schema;
    use slateberg_model::ident::NamespaceIdent;

    const BY_NAMES: &str = "@id(\"all\") permit (principal, action, resource);";
    const BY_PROPERTIES: &str = "@id(\"open\") permit (principal, action == Action::\"CreateNamespace\", \
                                 resource is Namespace) when { resource.hasTag(\"open\") };";

    fn policies(text: &str) -> PolicySet {
        let file = PolicyFile { name: "test.cedar".to_owned(), text: text.to_owned() };
        PolicySet::build(Arc::new(Schema::bundled()), &[file], &[]).expect("they are valid")
    }

    /// Returns a namespace with a property of `bytes` bytes.
    fn namespace(name: &str, bytes: usize) -> Resource {
        let properties = [("a".to_owned(), "x".repeat(bytes))].into();
        let attributes = Attributes { properties, ..Attributes::default() };
        let ident = NamespaceIdent(vec![name.to_owned()]);
        Resource::warehouse("w").namespace(&ident).with(Arc::new(attributes))
    }

    fn ask(cache: &DecisionCache, policies: &PolicySet, resource: &Resource) -> bool {
        let (identity, context) = (Arc::new(Identity::embedded("ann")), Context::default());
        let request = Request { identity: &identity, resource, context: &context };
        cache.decide(policies, "CreateNamespace", request).allow
    }

    fn units(cache: &DecisionCache) -> u64 {
        cache.decisions.size().bytes / UNIT_BYTES as u64
    }

    fn units_max(cache: &DecisionCache) -> u64 {
        cache.decisions.size().bytes_max / UNIT_BYTES as u64
    }

    #[test]
    fn short_decision_counts_as_one() {
        let (cache, policies) = (DecisionCache::new(100_000), policies(BY_NAMES));
        for n in 0..10 {
            assert!(ask(&cache, &policies, &namespace(&format!("n{n}"), 0)));
        }
        assert_eq!((cache.decisions.len(), units(&cache)), (10, 10));
    }

    #[test]
    fn cache_key_contains_only_used_inputs() {
        let (cache, policies) = (DecisionCache::new(100_000), policies(BY_NAMES));
        assert!(ask(&cache, &policies, &namespace("n", 1 << 20)));
        assert_eq!((cache.decisions.len(), units(&cache)), (1, 1));
        // Without policies on properties, the properties do not change the key.
        assert!(ask(&cache, &policies, &namespace("n", 7)));
        assert_eq!(cache.decisions.len(), 1);
    }

    #[test]
    fn long_decisions_count_as_several() {
        let (cache, policies) = (DecisionCache::new(100_000), policies(BY_PROPERTIES));
        assert!(!ask(&cache, &policies, &namespace("n", 10 * UNIT_BYTES)));
        assert_eq!((cache.decisions.len(), units(&cache)), (1, 11));
        assert!(!ask(&cache, &policies, &namespace(&"n".repeat(10 * UNIT_BYTES), 0)));
        assert_eq!((cache.decisions.len(), units(&cache)), (2, 22));
    }

    #[test]
    fn cache_stays_within_its_capacity() {
        let (cache, policies) = (DecisionCache::new(100), policies(BY_PROPERTIES));
        for n in 0..200 {
            let bytes = [UNIT_BYTES, 10 * UNIT_BYTES, 1000 * UNIT_BYTES][n % 3];
            assert!(!ask(&cache, &policies, &namespace(&format!("n{n}"), bytes)));
            assert!(units(&cache) <= units_max(&cache));
        }
        assert!(!cache.decisions.is_empty() && units_max(&cache) <= 128);
    }

    #[test]
    fn cached_decisions_depend_on_principal_and_credential() {
        let policies = policies(
            "@id(\"new\") permit (principal, action, resource) unless { context has client };",
        );
        let cache = DecisionCache::new(100_000);
        let resource = namespace("n", 0);
        let roles = (0..100).map(|n| format!("{n:0100}"));
        let identity = Arc::new(Identity::embedded("ann").with_roles(roles));
        let plain = Context::default();
        let request = Request { identity: &identity, resource: &resource, context: &plain };
        assert!(cache.decide(&policies, "CreateNamespace", request).allow);
        let weight = units(&cache);
        assert!((10..20).contains(&weight), "{weight}");
        let client = Some("x".repeat(10 * UNIT_BYTES));
        let long = Context { client, ..Context::default() };
        let request = Request { context: &long, ..request };
        assert!(!cache.decide(&policies, "CreateNamespace", request).allow);
        assert!(units(&cache) >= 2 * weight + 9);
    }
}
