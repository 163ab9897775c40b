//! The golden matrix: the decisions of the default policies for every role, action and kind of
//! resource. The file `matrix.txt` shows them, so that a change of permissions is visible in it.
//!
//! `UPDATE_MATRIX=1 cargo test --test authz matrix` writes the file.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use slateberg_authz::grants::{Grant, Grantee, GranteeKind};
use slateberg_authz::resource::{KINDS, Kind, Resource};
use slateberg_model::principal::Identity;

use crate::support::{ask, defaults_and, person, resource};

const HEADER: &str = "\
# The decisions of the default policies. Each row is a principal, and each column is an action.
# + allowed, . denied, blank: the action does not apply to the resource.
#
# The roles have no grants. The grantees have no role, but the grant on the namespace prod/sales.
";

const ROLES: [&str; 4] = ["admin", "writer", "reader", "auditor"];
const TEMPLATES: [&str; 4] = ["grant-own", "grant-write", "grant-read", "grant-browse"];

fn resources() -> Vec<Resource> {
    vec![
        Resource::catalog(),
        resource(Kind::Warehouse, "prod"),
        resource(Kind::Namespace, "prod/sales"),
        resource(Kind::Namespace, "prod/sales/eu"),
        resource(Kind::Table, "prod/sales/orders"),
        resource(Kind::View, "prod/sales/totals"),
        resource(Kind::Function, "prod/sales/add_tax"),
        resource(Kind::Namespace, "prod/salesforce"),
        resource(Kind::Table, "prod/hr/salaries"),
    ]
}

fn grants() -> Vec<Grant> {
    let grant = |template: &str| Grant {
        template: template.to_owned(),
        grantee: Grantee { kind: GranteeKind::User, id: template.to_owned() },
        resource: resource(Kind::Namespace, "prod/sales"),
    };
    TEMPLATES.map(grant).into()
}

fn matrix() -> String {
    let policies = defaults_and("", &grants());
    let roles = ROLES.map(|role| (format!("role {role}"), person(role, Some(role))));
    let grantees = TEMPLATES.map(|template| (template.to_owned(), person(template, None)));
    let nobody = [("nobody".to_owned(), person("nobody", None))];
    let all: Vec<(String, Arc<Identity>)> =
        roles.into_iter().chain(grantees).chain(nobody).collect();
    let mut text = HEADER.to_owned();
    for resource in resources() {
        let actions = policies.schema().actions();
        let kind = resource.kind().name();
        let actions: Vec<_> = actions
            .filter(|action| policies.schema().applies(action, kind) == Some(true))
            .collect();
        writeln!(text, "\n{resource}").expect("a string accepts all writes");
        writeln!(text, "  {:14}{}", "", actions.join(" ")).expect("a string accepts all writes");
        for (name, identity) in &all {
            let cell = |action: &&str| {
                let allow = ask(&policies, identity, action, &resource).allow;
                format!("{:width$}", if allow { "+" } else { "." }, width = action.len() + 1)
            };
            let cells: String = actions.iter().map(cell).collect();
            writeln!(text, "  {name:14}{}", cells.trim_end()).expect("a string accepts all writes");
        }
    }
    text
}

#[test]
fn default_policies_match_the_matrix() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/authz/matrix.txt");
    let found = matrix();
    #[expect(
        clippy::disallowed_methods,
        reason = "developers set it after they have changed the permissions of a role"
    )]
    if std::env::var("UPDATE_MATRIX").is_ok() {
        std::fs::write(&file, &found).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(&file).expect("the file can be read");
    for (number, (golden, found)) in golden.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, golden, "line {}", number + 1);
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}

#[test]
fn matrix_contains_every_kind_of_resource() {
    let resources = resources();
    for kind in KINDS {
        assert!(resources.iter().any(|resource| resource.kind() == kind), "{kind:?}");
    }
}
