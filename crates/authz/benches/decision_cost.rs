//! Measures the cost of an evaluated decision, of a cached decision, and of the decisions for a
//! page of names. There are 100 policies, and the table is five namespace levels deep.
//!
//! `cargo bench -p slateberg-authz --bench decision_cost`

#![expect(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slateberg_authz::bundled::default_policies;
use slateberg_authz::cache::DecisionCache;
use slateberg_authz::context::Context;
use slateberg_authz::decide::Request;
use slateberg_authz::grants::{Grant, Grantee, GranteeKind};
use slateberg_authz::page::PageQuestion;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Kind, Node, Resource};
use slateberg_authz::schema::Schema;
use slateberg_model::ident::TabularKind;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// Number of measurements, of which the median is reported.
const ROUNDS: usize = 501;
/// Names in a page.
const NAMES: usize = 1000;
/// Policies in the set, including those of the roles and grants.
const POLICIES: usize = 100;

fn main() {
    let policies = policies("");
    let asking = policies_of_attributes();
    println!("{} policies, 5 namespace levels, medians of {ROUNDS}", policies.len());
    let identity = identity();
    let context = Context::default();
    let table = namespace().tabular(TabularKind::Table, Node::named("orders"));
    let request = Request { identity: &identity, resource: &table, context: &context };
    assert!(policies.decide("Load", request).allow);
    let per_decision = |name: &str, took: Duration| {
        println!("{name:44}{:8.1} us", took.as_secs_f64() * 1e6);
    };
    per_decision("one decision, uncached", median(|| policies.decide("Load", request)));
    let cache = DecisionCache::new(1000);
    per_decision("one decision, remembered", median(|| cache.decide(&policies, "Load", request)));
    let nodes: Vec<_> =
        (0..NAMES).map(|number| Node::named(format!("table_{number:04}"))).collect();
    for (name, policies) in [("", &policies), (", a policy asks for a property", &asking)] {
        let page = || {
            let container = namespace();
            let kind = Kind::Table;
            PageQuestion::new(policies, "Load", &identity, &container, kind, &context)
                .answer(&nodes)
        };
        per_decision(&format!("{NAMES} names at once{name}"), median(page));
    }
}

/// Returns the median duration of a function.
fn median<T>(mut measured: impl FnMut() -> T) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(measured());
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn namespace() -> Resource {
    let levels = ["sales", "emea", "de", "retail", "daily"];
    levels
        .into_iter()
        .fold(Resource::warehouse("prod"), |inner, level| inner.level(Node::named(level)))
}

/// Returns a principal in ten groups, one of which has a grant to read.
fn identity() -> Arc<Identity> {
    Arc::new(Identity {
        kind: IdentityKind::User,
        id: "corp/ann".to_owned(),
        name: "Ann".to_owned(),
        groups: (0..10).map(|number| format!("team-{number}")).collect(),
        roles: ["employee".to_owned()].into(),
        method: Method::Jwt,
        warehouses: None,
    })
}

/// Returns a policy set that consists of grants to teams (each on a different resource) and
/// policies with conditions on the context.
fn policies(further: &str) -> PolicySet {
    let mut text = further.to_owned();
    for number in 0..20 {
        text.push_str(&format!(
            "@id(\"office-{number}\") permit (principal in Group::\"team-{number}\", \
             action in Action::\"Read\", resource in Namespace::\"prod/office-{number}\") \
             when {{ context has source_address && context.source_address.isInRange(ip(\"10.{number}.0.0/16\")) }};\n"
        ));
    }
    let mut files = default_policies();
    files.push(PolicyFile { name: "teams.cedar".to_owned(), text });
    let schema = Arc::new(Schema::bundled());
    let grant = |number: usize| Grant {
        template: "grant-read".to_owned(),
        grantee: Grantee { kind: GranteeKind::Group, id: format!("team-{number}") },
        resource: if number == 3 {
            Resource::warehouse("prod").level(Node::named("sales"))
        } else {
            Resource::warehouse(format!("warehouse-{number}"))
        },
    };
    let others = 4 + 20 + 1 + usize::from(!further.is_empty());
    let grants: Vec<_> = (0..POLICIES - others).map(grant).collect();
    PolicySet::build(schema, &files, &grants).expect("the policies are valid")
}

fn policies_of_attributes() -> PolicySet {
    policies(
        "@id(\"pii\") forbid (principal, action == Action::\"Load\", resource is Table) \
         when { resource.hasTag(\"class\") && resource.getTag(\"class\") == \"pii\" };\n",
    )
}
