//! Single decisions: attributes, context, scopes, and caching.

use std::net::IpAddr;
use std::sync::Arc;

use slateberg_authz::action::{Commit, Drop, Load};
use slateberg_authz::authority::{Authority, Decider};
use slateberg_authz::cache::DecisionCache;
use slateberg_authz::commit_kind::CommitKind;
use slateberg_authz::context::Context;
use slateberg_authz::decide::{CREDENTIAL_SCOPE, Request};
use slateberg_authz::grants::{Grant, Grantee, GranteeKind};
use slateberg_authz::page::PageQuestion;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Attributes, Kind, LEVELS_MAX, Resource};
use slateberg_base::rfc3339;
use slateberg_model::ident::NamespaceIdent;
use slateberg_model::principal::{Identity, Principal};

use crate::support::{ask, defaults_and, only, person, resource};

fn orders() -> Resource {
    resource(Kind::Table, "prod/sales/orders")
}

fn with_property(resource: Resource, key: &str, value: &str) -> Resource {
    let properties = [(key.to_owned(), value.to_owned())].into();
    resource.with(Arc::new(Attributes { properties, ..Attributes::default() }))
}

/// Whether a principal without roles may load a table.
fn loads(policies: &PolicySet, resource: &Resource, context: &Context) -> bool {
    let ann = person("ann", None);
    policies.decide("Load", Request { identity: &ann, resource, context }).allow
}

#[test]
fn decision_contains_its_deciding_policies() {
    let policies = defaults_and(
        "@id(\"frozen\") forbid (principal, action in Action::\"Commit\", resource in Namespace::\"prod/sales\");",
        &[],
    );
    let writer = person("ann", Some("writer"));
    let loaded = ask(&policies, &writer, "Load", &orders());
    assert_eq!((loaded.allow, loaded.policies), (true, vec!["role-writer".to_owned()]));
    let committed = ask(&policies, &writer, "CommitData", &orders());
    assert_eq!((committed.allow, committed.policies), (false, vec!["frozen".to_owned()]));
    let purged = ask(&policies, &writer, "Purge", &orders());
    assert_eq!((purged.allow, purged.policies), (false, vec![]));
    assert_eq!(purged.revision, policies.revision());
}

#[test]
fn decision_by_a_grant_contains_the_grant() {
    let grant = Grant {
        template: "grant-read".to_owned(),
        grantee: Grantee { kind: GranteeKind::User, id: "ann".to_owned() },
        resource: resource(Kind::Namespace, "prod/sales"),
    };
    let policies = defaults_and("", std::slice::from_ref(&grant));
    let decision = ask(&policies, &person("ann", None), "Load", &orders());
    assert_eq!(decision.policies, [grant.to_string()]);
    let summary = policies.summary(&grant.to_string()).expect("it is there");
    assert!(!summary.forbids);
}

#[test]
fn unknown_action_is_denied() {
    let policies = defaults_and("", &[]);
    let admin = person("ann", Some("admin"));
    for action in ["", "load", "Maintain", "Everything", "Read", "Commit", "ReadConfig"] {
        assert!(!ask(&policies, &admin, action, &orders()).allow, "{action}");
    }
}

#[test]
fn policy_can_use_properties_of_a_table_and_its_parents() {
    let policies = only(
        r#"@id("public") permit (principal, action == Action::"Load", resource is Table)
           when { resource.hasTag("class") && resource.getTag("class") == "public" };
           @id("open") permit (principal, action == Action::"Load", resource is Table)
           when { resource.namespace.hasTag("open") };"#,
    );
    let anytime = Context::default();
    assert!(!loads(&policies, &orders(), &anytime));
    assert!(!loads(&policies, &with_property(orders(), "class", "secret"), &anytime));
    assert!(loads(&policies, &with_property(orders(), "class", "public"), &anytime));
    let open: Arc<Attributes> = Arc::new(Attributes {
        properties: [("open".to_owned(), String::new())].into(),
        ..Attributes::default()
    });
    let in_open = orders().with_all(vec![Arc::default(), Arc::clone(&open), Arc::default()]);
    assert!(loads(&policies, &in_open, &anytime));
    let warehouse_only = orders().with_all(vec![open, Arc::default(), Arc::default()]);
    assert!(!loads(&policies, &warehouse_only, &anytime));
}

#[test]
fn policy_can_use_owners_locations_and_names() {
    let policies = only(
        r#"@id("owner") permit (principal, action == Action::"Load", resource is Table)
           when { resource has owner && resource.owner == "ann" };
           @id("lake") permit (principal, action == Action::"Load", resource is View)
           when { resource has location && resource.location like "s3://lake/*" };
           @id("scratch") permit (principal, action == Action::"Load", resource)
           when { resource.name like "tmp_*" };"#,
    );
    let anytime = Context::default();
    let owned_by = |owner: &str| {
        let owner = Some(owner.to_owned());
        orders().with(Arc::new(Attributes { owner, ..Attributes::default() }))
    };
    assert!(loads(&policies, &owned_by("ann"), &anytime));
    assert!(!loads(&policies, &owned_by("bob"), &anytime));
    let at = |location: &str| {
        let location = Some(location.to_owned());
        let view = resource(Kind::View, "prod/sales/totals");
        view.with(Arc::new(Attributes { location, ..Attributes::default() }))
    };
    assert!(loads(&policies, &at("s3://lake/totals"), &anytime));
    assert!(!loads(&policies, &at("s3://other/totals"), &anytime));
    assert!(loads(&policies, &resource(Kind::View, "prod/sales/tmp_1"), &anytime));
}

#[test]
fn policy_can_use_the_context() {
    let policies = only(
        r#"@id("office") permit (principal, action == Action::"Load", resource)
           when { context has source_address && context.source_address.isInRange(ip("10.0.0.0/8")) };
           @id("night") permit (principal, action == Action::"Load", resource)
           when { context.time.toTime() < duration("6h") };
           @id("spark") permit (principal, action == Action::"Load", resource)
           when { context has client && context.client like "Apache-Spark*" };"#,
    );
    let noon = rfc3339::parse("2026-01-31T12:00:00Z").expect("it is a time");
    let night = rfc3339::parse("2026-01-31T05:59:59.999Z").expect("it is a time");
    let from = |address: &str| Context {
        now_ms: noon,
        source_address: Some(address.parse().expect("it is an address")),
        ..Context::default()
    };
    assert!(!loads(&policies, &orders(), &Context { now_ms: noon, ..Context::default() }));
    assert!(loads(&policies, &orders(), &Context { now_ms: night, ..Context::default() }));
    assert!(loads(&policies, &orders(), &from("10.1.2.3")));
    assert!(
        loads(&policies, &orders(), &from("::ffff:10.1.2.3")),
        "an IPv4 address in IPv6 notation"
    );
    assert!(!loads(&policies, &orders(), &from("192.168.1.1")));
    let spark = Context { client: Some("Apache-Spark/4".to_owned()), ..from("192.168.1.1") };
    assert!(loads(&policies, &orders(), &spark));
}

#[test]
fn a_forbid_that_cannot_be_evaluated_denies() {
    // In Cedar, an integer overflow is an error, and a policy with an error is skipped.
    let policies = defaults_and(
        r#"@id("broken") forbid (principal, action == Action::"Load", resource)
           when { 9223372036854775807 + 1 == 0 };"#,
        &[],
    );
    let admin = person("ann", Some("admin"));
    let decision = ask(&policies, &admin, "Load", &orders());
    assert_eq!((decision.allow, decision.policies), (false, vec!["broken".to_owned()]));
    assert!(ask(&policies, &admin, "Drop", &orders()).allow);
}

#[test]
fn credential_for_one_warehouse_is_denied_in_others() {
    let policies = defaults_and("", &[]);
    let mut identity = (*person("key", Some("admin"))).clone();
    identity.warehouses = Some(["prod".to_owned()].into());
    let identity = Arc::new(identity);
    assert!(ask(&policies, &identity, "Drop", &orders()).allow);
    for (action, elsewhere) in [
        ("Drop", resource(Kind::Table, "test/sales/orders")),
        ("ReadConfig", resource(Kind::Warehouse, "test")),
        ("ManageKeys", Resource::catalog()),
    ] {
        let decision = ask(&policies, &identity, action, &elsewhere);
        assert_eq!((decision.allow, decision.policies), (false, vec![CREDENTIAL_SCOPE.to_owned()]));
    }
}

#[test]
fn names_with_special_characters_do_not_widen_a_policy() {
    let policies = only(
        "@id(\"a\") permit (principal, action == Action::\"Load\", resource in Namespace::\"prod/a\");",
    );
    let table = |levels: &[&str], name: &str| {
        let levels = levels.iter().map(ToString::to_string).collect();
        let namespace = NamespaceIdent(levels);
        let node = slateberg_authz::resource::Node::named(name);
        let inside = Resource::warehouse("prod").namespace(&namespace);
        inside.tabular(slateberg_model::ident::TabularKind::Table, node)
    };
    let anytime = Context::default();
    assert!(loads(&policies, &table(&["a"], "t"), &anytime));
    assert!(loads(&policies, &table(&["a", "b"], "t"), &anytime));
    for levels in [["a/b"], ["a%2Fb"], ["a.b"], ["ab"], ["A"], ["*"], ["prod/a"], ["a\" "]] {
        assert!(!loads(&policies, &table(&levels, "t"), &anytime), "{levels:?}");
    }
    assert!(!loads(&policies, &table(&["b"], "a/t"), &anytime));
}

#[test]
fn permit_of_a_principal_does_not_apply_to_tasks() {
    let authority = Authority::new(defaults_and("", &[]), 100);
    let context = Context::default();
    let reader = Principal::Identified(person("ann", Some("reader")));
    assert!(authority.authorize::<Load>(&reader, &orders(), &context).is_ok());
    assert!(authority.authorize::<Drop>(&reader, &orders(), &context).is_err());
    let anonymous = Principal::Anonymous;
    assert!(authority.authorize::<Drop>(&anonymous, &orders(), &context).is_ok());
    assert!(authority.authorize::<Load>(&Principal::Task("x"), &orders(), &context).is_err());
}

#[test]
fn commit_needs_permission_for_each_kind_of_change() {
    let policies = defaults_and(
        "@id(\"no-schema\") forbid (principal, action == Action::\"CommitSchema\", resource);",
        &[],
    );
    let authority = Authority::new(policies, 100);
    let context = Context::default();
    let commits = |role: &str, kinds: &[CommitKind]| {
        let principal = Principal::Identified(person("ann", Some(role)));
        let kinds = kinds.iter().copied().collect();
        let Ok(Decider::Policies(asking)) = authority.ask(&principal, &context) else {
            panic!("policies decide for a known principal")
        };
        asking.permit_commit(&orders(), &kinds).is_ok()
    };
    assert!(commits("writer", &[CommitKind::Data, CommitKind::Refs, CommitKind::Properties]));
    assert!(!commits("writer", &[CommitKind::Data, CommitKind::Schema]));
    assert!(!commits("writer", &[CommitKind::Data, CommitKind::Location]));
    assert!(commits("reader", &[]), "an empty commit needs only the permission to load");
    assert!(!commits("nobody", &[]));
    // No permit for the group `Commit` is issued directly, because it would bypass the policies on
    // individual kinds of changes.
    let admin = Principal::Identified(person("ann", Some("admin")));
    assert!(authority.authorize::<Commit>(&admin, &orders(), &context).is_err());
}

/// Decides twice, so that the second decision comes from the cache.
fn remembered(
    cache: &DecisionCache,
    policies: &PolicySet,
    identity: &Arc<Identity>,
    resource: &Resource,
    context: &Context,
) -> bool {
    let request = Request { identity, resource, context };
    let first = cache.decide(policies, "Load", request);
    let second = cache.decide(policies, "Load", request);
    assert_eq!(first, second);
    assert_eq!(*first, policies.decide("Load", request));
    first.allow
}

#[test]
fn decision_cache_key_covers_all_inputs_of_a_decision() {
    let cache = DecisionCache::new(100);
    let text = r#"@id("a") permit (principal == User::"ann", action == Action::"Load", resource)
        when { resource.hasTag("open") && context has source_address
               && context.source_address.isLoopback() };"#;
    let policies = only(text);
    let (ann, bob) = (person("ann", None), person("bob", None));
    let open = with_property(resource(Kind::View, "prod/sales/t"), "open", "");
    let closed = resource(Kind::View, "prod/sales/t");
    let local = Some(IpAddr::from([127, 0, 0, 1]));
    let here = Context { source_address: local, ..Context::default() };
    let there = Context { source_address: Some(IpAddr::from([10, 0, 0, 1])), ..Context::default() };
    // The conditions use properties of views, which the schema contains.
    assert!(remembered(&cache, &policies, &ann, &open, &here));
    assert!(!remembered(&cache, &policies, &ann, &closed, &here));
    assert!(!remembered(&cache, &policies, &ann, &open, &there));
    assert!(!remembered(&cache, &policies, &bob, &open, &here));
    assert!(!remembered(&cache, &only(""), &ann, &open, &here));
    assert!(remembered(&cache, &policies, &ann, &open, &here));
}

#[test]
fn resource_beyond_the_maximum_depth_is_denied() {
    let policies = only("@id(\"all\") permit (principal, action, resource);");
    let (ann, context) = (person("ann", None), Context::default());
    let deep = |levels| {
        let levels = vec!["a".to_owned(); levels];
        Resource::warehouse("w").namespace(&NamespaceIdent(levels))
    };
    let settled = |container: &Resource| {
        PageQuestion::new(&policies, "Load", &ann, container, Kind::Table, &context)
            .constant_result()
    };
    let deepest = deep(LEVELS_MAX - 1);
    assert!(ask(&policies, &ann, "DescribeNamespace", &deepest).allow);
    assert_eq!(settled(&deepest), Some(true));
    assert!(Resource::parse(Kind::Namespace, &deepest.id()).is_ok());
    for levels in [LEVELS_MAX, 100_000] {
        let deeper = deep(levels);
        assert!(!ask(&policies, &ann, "DescribeNamespace", &deeper).allow);
        assert_eq!(settled(&deeper), Some(false));
        assert!(Resource::parse(Kind::Namespace, &deeper.id()).is_err());
    }
}

#[test]
fn decision_that_depends_on_the_time_is_not_cached() {
    let cache = DecisionCache::new(100);
    let policies = only(
        r#"@id("a") permit (principal, action == Action::"Load", resource)
           when { context.time < datetime("2026-01-01") };"#,
    );
    let ann = person("ann", None);
    let at = |text: &str| Context {
        now_ms: rfc3339::parse(text).expect("it is a time"),
        ..Context::default()
    };
    assert!(remembered(&cache, &policies, &ann, &orders(), &at("2025-12-31T23:59:59Z")));
    assert!(!remembered(&cache, &policies, &ann, &orders(), &at("2026-01-01T00:00:00Z")));
}
