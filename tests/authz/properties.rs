//! Properties of arbitrary policies: a forbid overrides a permit, the default is to deny, and the
//! decisions for a page of names are equal to those for its names one by one.

use std::sync::Arc;

use proptest::prelude::*;
use slateberg_authz::cache::DecisionCache;
use slateberg_authz::context::Context;
use slateberg_authz::decide::Request;
use slateberg_authz::grants::{Grant, Grantee, GranteeKind};
use slateberg_authz::page::PageQuestion;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Attributes, Kind, Node, Resource};
use slateberg_authz::schema::Schema;
use slateberg_model::ident::TabularKind;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// Few names, so that policies match resources.
const NAMES: [&str; 4] = ["a", "b", "a/b", "t"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(ToOwned::to_owned)
}

fn attributes() -> impl Strategy<Value = Arc<Attributes>> {
    let word = || prop::option::of(prop::sample::select(&["x", "y"][..]));
    let resource_path = prop::option::of(prop::sample::select(&["s3://b/x", "s3://b/y"][..]));
    (word(), word(), prop::option::of(name()), resource_path).prop_map(
        |(class, ann, owner, resource_path)| {
            let tags = [("class", class), ("ann", ann)];
            let tags =
                tags.into_iter().filter_map(|(key, tag)| Some((key.to_owned(), tag?.to_owned())));
            let location = resource_path.map(ToOwned::to_owned);
            Arc::new(Attributes { properties: tags.collect(), owner, location })
        },
    )
}

fn node() -> impl Strategy<Value = Node> {
    (name(), attributes()).prop_map(|(name, attributes)| Node::known(name, attributes))
}

/// A namespace of up to three levels, or a warehouse.
fn container() -> impl Strategy<Value = Resource> {
    (prop::sample::select(&["v", "w"][..]), prop::collection::vec(node(), 0..4)).prop_map(
        |(warehouse, levels)| {
            levels.into_iter().fold(Resource::warehouse(warehouse), Resource::level)
        },
    )
}

/// A resource that a policy or grant can refer to.
fn resource_path() -> impl Strategy<Value = Resource> {
    (container(), prop::option::of((any::<bool>(), name()))).prop_map(
        |(container, leaf)| match leaf {
            Some((is_table, name)) if container.kind() == Kind::Namespace => {
                let kind = if is_table { TabularKind::Table } else { TabularKind::View };
                container.tabular(kind, Node::named(name))
            }
            _ => container,
        },
    )
}

fn principal_scope() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "principal",
            "principal == User::\"ann\"",
            "principal in Role::\"r1\"",
            "principal in Group::\"g1\"",
            "principal is User",
            "principal is ServiceAccount",
            "principal is User in Role::\"r1\"",
        ][..],
    )
    .prop_map(ToOwned::to_owned)
}

fn action_scope() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "action",
            "action == Action::\"Load\"",
            "action in Action::\"Read\"",
            "action in [Action::\"Write\", Action::\"DescribeNamespace\"]",
        ][..],
    )
    .prop_map(ToOwned::to_owned)
}

fn resource_scope() -> impl Strategy<Value = String> {
    let with = |form: &'static str| {
        resource_path().prop_map(move |resource_path| format!("resource {form} {resource_path}"))
    };
    prop_oneof![
        2 => Just("resource".to_owned()),
        1 => Just("resource is Table".to_owned()),
        1 => Just("resource is Namespace".to_owned()),
        2 => with("=="),
        3 => with("in"),
        1 => with("is Table in"),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => Just("when { principal.name == \"ann\" }".to_owned()),
        1 => Just("when { context.authentication == \"jwt\" }".to_owned()),
        1 => Just("when { 9223372036854775807 + 1 == 0 }".to_owned()),
        1 => Just("when { resource.name == \"a\" }".to_owned()),
        1 => resource_path().prop_map(|resource_path| format!("unless {{ resource in {resource_path} }}")),
        1 => Just("when { resource is Table && resource.hasTag(\"class\") && resource.getTag(\"class\") == \"x\" }".to_owned()),
        1 => Just("when { resource is Table && resource has owner && resource.owner == \"a\" }".to_owned()),
        1 => Just("when { resource is Table && resource.namespace.hasTag(\"class\") }".to_owned()),
        1 => Just("when { resource is Table && resource.hasTag(principal.name) && resource.getTag(principal.name) == \"x\" }".to_owned()),
        1 => Just("when { resource is Table && resource has location && resource.location like \"*x\" }".to_owned()),
        1 => Just("when { resource is Table && [resource.name].contains(\"b\") }".to_owned()),
    ]
}

fn policies() -> impl Strategy<Value = Vec<String>> {
    let effect = prop::sample::select(&["permit", "permit", "forbid"][..]);
    let one = (effect, principal_scope(), action_scope(), resource_scope(), condition()).prop_map(
        |(effect, principal, action, resource, condition)| {
            format!("{effect} ({principal}, {action}, {resource}) {condition};")
        },
    );
    prop::collection::vec(one, 0..8)
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let template = prop::sample::select(&["grant-read", "grant-write", "grant-browse"][..]);
    let grantee = prop_oneof![
        Just(Grantee { kind: GranteeKind::User, id: "ann".to_owned() }),
        Just(Grantee { kind: GranteeKind::Role, id: "r1".to_owned() }),
    ];
    let one = (template, grantee, resource_path()).prop_map(|(template, grantee, resource)| {
        Grant { template: template.to_owned(), grantee, resource }
    });
    prop::collection::vec(one, 0..3)
}

fn identity() -> impl Strategy<Value = Arc<Identity>> {
    let scope = prop::option::weighted(0.2, Just(["w".to_owned()].into()));
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), scope).prop_map(
        |(is_user, is_ann, has_role, has_group, warehouses)| {
            let id = if is_ann { "ann" } else { "bob" };
            Arc::new(Identity {
                kind: if is_user { IdentityKind::User } else { IdentityKind::ServiceAccount },
                id: id.to_owned(),
                name: id.to_owned(),
                groups: has_group.then(|| "g1".to_owned()).into_iter().collect(),
                roles: has_role.then(|| "r1".to_owned()).into_iter().collect(),
                method: if is_user { Method::Jwt } else { Method::ApiKey },
                warehouses,
            })
        },
    )
}

/// Returns a policy with an id, as a file of its own.
fn file(number: usize, text: &str) -> PolicyFile {
    let text = format!("@id(\"p{number}\")\n{text}");
    PolicyFile { name: format!("{number}.cedar"), text }
}

/// Returns the policies that the schema accepts. Not every condition is valid in every scope.
fn accepted(schema: &Arc<Schema>, texts: Vec<String>) -> Vec<String> {
    let is_valid =
        |text: &String| PolicySet::build(Arc::clone(schema), &[file(0, text)], &[]).is_ok();
    texts.into_iter().filter(is_valid).collect()
}

fn build(schema: &Arc<Schema>, texts: &[String], grants: &[Grant]) -> PolicySet {
    let mut files = slateberg_authz::bundled::default_policies();
    files.retain(|file| !grants.is_empty() && file.name.ends_with("grants.cedar"));
    files.extend(texts.iter().enumerate().map(|(number, text)| file(number, text)));
    PolicySet::build(Arc::clone(schema), &files, grants).expect("each of them is valid")
}

/// Returns pairs of a kind of resource that this container can hold, and an action on such a
/// resource. For each kind, there is the action that decides whether a listing shows the resource.
fn questions(container: &Resource) -> Vec<(Kind, &'static str)> {
    let mut questions =
        vec![(Kind::Namespace, "DescribeNamespace"), (Kind::Namespace, "CreateNamespace")];
    if container.kind() == Kind::Namespace {
        questions.extend([(Kind::Table, "Load"), (Kind::View, "Load"), (Kind::Table, "Drop")]);
    }
    questions
}

fn leaf(container: &Resource, kind: Kind, node: &Node) -> Resource {
    match kind {
        Kind::Table => container.clone().tabular(TabularKind::Table, node.clone()),
        Kind::View => container.clone().tabular(TabularKind::View, node.clone()),
        _ => container.clone().level(node.clone()),
    }
}

/// Generates nodes with unique names, as in a namespace.
fn page() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::vec(attributes(), NAMES.len()).prop_map(|attributes| {
        let nodes = NAMES.iter().zip(attributes);
        nodes.map(|(name, attributes)| Node::known(*name, attributes)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn decisions_for_a_page_equal_decisions_for_single_names(
        texts in policies(), grants in grants(), identity in identity(), container in container(),
        nodes in page(),
    ) {
        let schema = Arc::new(Schema::bundled());
        let policies = build(&schema, &accepted(&schema, texts), &grants);
        let context = Context::default();
        let cache = DecisionCache::new(100);
        for (kind, action) in questions(&container) {
            let question = PageQuestion::new(&policies, action, &identity, &container, kind, &context);
            let single = |node: &Node| {
                let resource = leaf(&container, kind, node);
                let request = Request { identity: &identity, resource: &resource, context: &context };
                let decision = policies.decide(action, request);
                assert_eq!(*cache.decide(&policies, action, request), decision);
                assert_eq!(*cache.decide(&policies, action, request), decision);
                decision.allow
            };
            let singly: Vec<_> = nodes.iter().map(single).collect();
            prop_assert_eq!(question.answer(&nodes), singly.clone(), "{} {:?}", action, kind);
            if !question.needs_attributes() {
                let bare: Vec<_> = nodes.iter().map(|node| Node::named(node.name.clone())).collect();
                prop_assert_eq!(question.answer(&bare), singly, "{} {:?} by name", action, kind);
            }
        }
    }
}

// There are few cases, because every case builds and validates several sets.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn forbid_overrides_permit_and_default_is_deny(
        texts in policies(), identity in identity(), resource_path in resource_path(),
    ) {
        let action = match resource_path.kind() {
            Kind::Warehouse => "ReadConfig",
            Kind::Namespace => "DescribeNamespace",
            _ => "Load",
        };
        let context = Context::default();
        let request = Request { identity: &identity, resource: &resource_path, context: &context };
        let schema = Arc::new(Schema::bundled());
        let texts = accepted(&schema, texts);
        let decide = |texts: &[String]| build(&schema, texts, &[]).decide(action, request);
        let decision = decide(&texts);
        // Without the forbid policies, at least as much is allowed. Without the permit policies,
        // nothing is allowed.
        let (permits, forbids): (Vec<_>, Vec<_>) =
            texts.iter().cloned().partition(|text| text.starts_with("permit"));
        let by_permits = decide(&permits);
        prop_assert!(!decide(&forbids).allow);
        prop_assert!(!decision.allow || by_permits.allow);
        if decision.allow {
            prop_assert_eq!(decision.policies.is_empty(), false);
        }
        let mut forbidden = texts.clone();
        forbidden.push("forbid (principal, action, resource);".to_owned());
        prop_assert!(!decide(&forbidden).allow);
        // With a permit policy for everything, all requests that match no forbid policy are
        // allowed.
        let mut open = texts;
        open.push("permit (principal, action, resource);".to_owned());
        let forbidden_by = decide(&forbids).policies;
        prop_assert_eq!(decide(&open).allow, forbidden_by.is_empty());
    }

    #[test]
    fn listing_of_warehouses_contains_the_permitted_ones(
        texts in policies(), grants in grants(), identity in identity(),
    ) {
        let schema = Arc::new(Schema::bundled());
        let policies = build(&schema, &accepted(&schema, texts), &grants);
        let context = Context::default();
        let catalog = Resource::catalog();
        let question =
            PageQuestion::new(&policies, "ReadConfig", &identity, &catalog, Kind::Warehouse, &context);
        let nodes = ["v", "w", "x"].map(Node::named);
        let singly = nodes.clone().map(|node| {
            let resource = Resource::warehouse(node.name);
            let request = Request { identity: &identity, resource: &resource, context: &context };
            policies.decide("ReadConfig", request).allow
        });
        prop_assert_eq!(question.answer(&nodes), singly);
    }
}
