//! Principals, resources and policies for tests.

use std::sync::Arc;

use slateberg_authz::bundled::default_policies;
use slateberg_authz::context::Context;
use slateberg_authz::decide::{Decision, Request};
use slateberg_authz::grants::Grant;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Kind, Resource};
use slateberg_authz::schema::Schema;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// Returns a person with a role.
pub(crate) fn person(id: &str, role: Option<&str>) -> Arc<Identity> {
    Arc::new(Identity {
        kind: IdentityKind::User,
        id: id.to_owned(),
        name: id.to_owned(),
        groups: ["staff".to_owned()].into(),
        roles: role.map(ToOwned::to_owned).into_iter().collect(),
        method: Method::Jwt,
        warehouses: None,
    })
}

/// Parses a resource path.
pub(crate) fn resource(kind: Kind, path: &str) -> Resource {
    Resource::parse(kind, path).expect("the path is well-formed")
}

/// Returns the default policies with further ones.
pub(crate) fn defaults_and(text: &str, grants: &[Grant]) -> PolicySet {
    let mut files = default_policies();
    files.push(PolicyFile { name: "test.cedar".to_owned(), text: text.to_owned() });
    set(&files, grants)
}

/// Returns the policies of one source.
pub(crate) fn only(text: &str) -> PolicySet {
    set(&[PolicyFile { name: "test.cedar".to_owned(), text: text.to_owned() }], &[])
}

/// Returns a set, which must be valid.
pub(crate) fn set(files: &[PolicyFile], grants: &[Grant]) -> PolicySet {
    PolicySet::build(Arc::new(Schema::bundled()), files, grants).unwrap_or_else(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", problems.join("\n"))
    })
}

/// Decides in a default context.
pub(crate) fn ask(
    policies: &PolicySet,
    identity: &Arc<Identity>,
    action: &str,
    resource: &Resource,
) -> Decision {
    let context = Context::default();
    policies.decide(action, Request { identity, resource, context: &context })
}
