//! The golden matrix: every role, every action, every kind of resource, by the default policies.
//! The file `matrix.txt` is readable; a change of a role's permissions changes it.
//!
//! `UPDATE_MATRIX=1 cargo test --test authz matrix` writes the file.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use slateberg_authz::grants::{Grant, Grantee, GranteeKind};
use slateberg_authz::resource::{KINDS, Kind, Resource};
use slateberg_model::principal::Identity;

use crate::support::{ask, defaults_and, person, resource};

const INTRODUCTION: &str = "\
# What the default policies allow. Rows: who; columns: what. + allowed, . denied, blank: not done to this.
#
# The roles have no grants. The grantees have no role, but the grant on the namespace prod/sales.
";

const ROLES: [&str; 4] = ["admin", "writer", "reader", "auditor"];
const TEMPLATES: [&str; 4] = ["grant-own", "grant-write", "grant-read", "grant-browse"];

fn places() -> Vec<Resource> {
    vec![
        Resource::catalog(),
        resource(Kind::Warehouse, "prod"),
        resource(Kind::Namespace, "prod/sales"),
        resource(Kind::Namespace, "prod/sales/eu"),
        resource(Kind::Table, "prod/sales/orders"),
        resource(Kind::View, "prod/sales/totals"),
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
    let mut text = INTRODUCTION.to_owned();
    for place in places() {
        let actions = policies.schema().actions();
        let kind = place.kind().name();
        let actions: Vec<_> = actions
            .filter(|action| policies.schema().applies(action, kind) == Some(true))
            .collect();
        writeln!(text, "\n{place}").expect("a text takes everything");
        writeln!(text, "  {:14}{}", "", actions.join(" ")).expect("a text takes everything");
        for (name, identity) in &all {
            let cell = |action: &&str| {
                let allow = ask(&policies, identity, action, &place).allow;
                format!("{:width$}", if allow { "+" } else { "." }, width = action.len() + 1)
            };
            let cells: String = actions.iter().map(cell).collect();
            writeln!(text, "  {name:14}{}", cells.trim_end()).expect("a text takes everything");
        }
    }
    text
}

#[test]
fn the_default_policies_allow_what_the_matrix_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/authz/matrix.txt");
    let found = matrix();
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever changes a role asks for the file this way"
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
fn every_kind_of_resource_is_in_the_matrix() {
    let places = places();
    for kind in KINDS {
        assert!(places.iter().any(|place| place.kind() == kind), "{kind:?}");
    }
}
