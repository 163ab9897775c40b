//! Accepted and rejected policies, and the reported problems.

use super::*;
use crate::bundled::default_policies;
use crate::grants::{Grantee, GranteeKind};
use crate::resource::{Kind, Resource};

fn file(name: &str, text: &str) -> PolicyFile {
    PolicyFile { name: name.to_owned(), text: text.to_owned() }
}

fn build(files: &[PolicyFile], grants: &[Grant]) -> Result<PolicySet, Vec<String>> {
    let built = PolicySet::build(Arc::new(Schema::bundled()), files, grants);
    built.map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn rejection(text: &str) -> String {
    match build(&[file("a.cedar", text)], &[]) {
        Ok(_) => panic!("accepted: {text}"),
        Err(problems) => problems.join("\n"),
    }
}

fn grant(template: &str, resource: Resource) -> Grant {
    let grantee = Grantee { kind: GranteeKind::Group, id: "analysts".to_owned() };
    Grant { template: template.to_owned(), grantee, resource }
}

#[test]
fn default_policies_build_a_set_without_warnings() {
    let set = build(&default_policies(), &[]).expect("they are valid");
    assert_eq!(set.warnings(), []);
    assert_eq!((set.len(), set.templates()), (4, 4));
    let summary = set.summary("role-admin").expect("it is there");
    assert_eq!(summary.description.as_deref(), Some("Admins may do everything."));
}

/// `PolicySet::build` relies on this, because it does not validate default policies.
#[test]
fn default_policies_with_grants_on_every_kind_are_valid_by_the_schema() {
    let schema = Schema::bundled();
    let mut builder = SetBuilder::default();
    for file in default_policies() {
        builder.read(&schema, &file);
    }
    let mut grants = Vec::new();
    for template in builder.cedar.templates() {
        for kind in
            [GranteeKind::User, GranteeKind::ServiceAccount, GranteeKind::Role, GranteeKind::Group]
        {
            for (on, name) in [
                (Kind::Warehouse, "w"),
                (Kind::Namespace, "w/a/b"),
                (Kind::Table, "w/a/t"),
                (Kind::View, "w/a/v"),
            ] {
                let template = AsRef::<str>::as_ref(template.id()).to_owned();
                let grantee = Grantee { kind, id: "x".to_owned() };
                let resource = Resource::parse(on, name).expect("it is a name");
                grants.push(Grant { template, grantee, resource });
            }
        }
    }
    assert_eq!(grants.len(), 4 * 4 * 4);
    builder.link(&schema, &grants);
    assert_eq!(builder.problems, []);
    let result = schema.validator.validate_with_level(
        &builder.cedar,
        cedar_policy::ValidationMode::Strict,
        builder::REFERENCES_MAX,
    );
    let problems: Vec<_> = result.validation_errors().map(ToString::to_string).collect();
    assert_eq!(problems, [""; 0]);
    let warnings: Vec<_> = result.validation_warnings().map(ToString::to_string).collect();
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn problems_have_file_and_position() {
    let everything = "permit (principal, action, resource)";
    let wrong = [
        (format!("// first\n@id(\"a\")\n{everything} when {{ true && }};"), "a.cedar:3:53: ", "`}`"),
        (
            "\n\n@id(\"a\")\npermit (principal, action == Action::\"Lod\", resource);".to_owned(),
            "a.cedar:4:",
            "Lod",
        ),
        (
            "@id(\"a\")\npermit (principal, action == Action::\"Load\", resource)\nwhen { resource.owner == \"ann\" };"
                .to_owned(),
            "a.cedar:3:",
            "owner",
        ),
        (
            format!("@id(\"a\") {everything};\n  {everything} when {{ true }};"),
            "a.cedar:2:3: ",
            "the policy has no name",
        ),
        (
            format!("@id(\"a\") {everything};\n@id(\"a\") {everything} when {{ true }};"),
            "a.cedar:2:1: ",
            "@id(\"a\") is taken, at a.cedar:1",
        ),
    ];
    for (text, position, reason) in wrong {
        let said = rejection(&text);
        assert!(said.starts_with(position) && said.contains(reason), "{said}");
    }
}

#[test]
fn one_invalid_file_rejects_the_set_with_all_problems() {
    let good = file("good.cedar", "@id(\"g\") permit (principal, action, resource);");
    let typo = file("typo.cedar", "@id(\"t\") permit (principal, akshun, resource);");
    let wrong =
        file("wrong.cedar", "@id(\"w\") permit (principal == Person::\"a\", action, resource);");
    let problems = build(&[good, typo, wrong], &[]).expect_err("two are broken");
    assert!(problems.iter().any(|problem| problem.starts_with("typo.cedar:1:")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.starts_with("wrong.cedar:1:")), "{problems:?}");
}

#[test]
fn conditions_use_only_attributes_of_the_resource() {
    // A request contains only the attributes of its resource and of the parents. The namespace
    // `w/a` may not be one of them.
    let literal = "@id(\"a\") forbid (principal, action, resource) when { Namespace::\"w/a\".name == \"a\" };";
    assert!(!rejection(literal).is_empty());
}

#[test]
fn revision_depends_only_on_the_content() {
    let one = file("a.cedar", "@id(\"a\") permit (principal, action, resource);");
    let two = file("b.cedar", "@id(\"b\") permit (principal, action, resource);");
    let grants = [grant("grant-read", Resource::warehouse("w"))];
    let revision = |files: &[PolicyFile], grants: &[Grant]| {
        build(files, grants).expect("it is valid").revision()
    };
    let both = revision(&[one.clone(), two.clone()], &[]);
    assert_eq!(both, revision(&[two.clone(), one.clone()], &[]), "the order does not matter");
    assert_ne!(both, revision(&[one], &[]));
    let defaults = default_policies();
    assert_ne!(revision(&defaults, &[]), revision(&defaults, &grants));
}

#[test]
fn grant_shows_the_parents_of_its_resource() {
    let namespace = Resource::parse(Kind::Namespace, "w/a/b").expect("it is");
    let set = build(&default_policies(), &[grant("grant-write", namespace)]).expect("it is valid");
    let ids: Vec<String> =
        set.rules.iter().map(|rule| AsRef::<str>::as_ref(rule.policy.id()).to_owned()).collect();
    let granted: Vec<_> = ids.iter().filter(|id| id.starts_with("grant")).collect();
    assert_eq!(
        granted,
        [
            "grant-browse[Group::\"analysts\", Namespace::\"w/a\"]",
            "grant-browse[Group::\"analysts\", Warehouse::\"w\"]",
            "grant-write[Group::\"analysts\", Namespace::\"w/a/b\"]",
        ]
    );
}

#[test]
fn grant_requires_an_existing_template_and_a_grantable_resource() {
    for wrong in
        [grant("grant-all", Resource::warehouse("w")), grant("grant-read", Resource::catalog())]
    {
        build(&default_policies(), &[wrong]).expect_err("it is refused");
    }
}

#[test]
fn invalid_read_annotations_are_rejected_with_their_position() {
    let load = "permit (principal, action == Action::\"Load\", resource);";
    let wrong = [
        (
            format!("@id(\"a\")\n  @row_filters(\"false\")\n{load}"),
            "a.cedar:2:3: @row_filters: expected @id",
        ),
        (format!("@id(\"a\")\n@note(\"hi\")\n{load}"), "a.cedar:2:1: @note: expected @id"),
        (
            format!("@id(\"a\")\n@row_filter(\"region = 1\")\n{load}"),
            "a.cedar:2:1: @row_filter: Cannot",
        ),
        (format!("@id(\"a\")\n@row_filter\n{load}"), "a.cedar:2:1: @row_filter: Cannot"),
        (
            format!("@id(\"a\") @column_mask(\"x: hide\")\n{load}"),
            "a.cedar:1:10: @column_mask: Cannot",
        ),
        (
            "@id(\"a\") @row_filter(\"false\") forbid (principal, action, resource);".to_owned(),
            "a.cedar:1:10: @row_filter: a forbid cannot restrict",
        ),
        (
            "@id(\"a\") @row_filter(\"false\") forbid (principal in ?principal, action, resource);"
                .to_owned(),
            "a.cedar:1:10: @row_filter: a forbid cannot restrict",
        ),
    ];
    for (text, said) in wrong {
        let rejection = rejection(&text);
        assert!(rejection.starts_with(said) && rejection.lines().count() == 1, "{rejection}");
    }
}

#[test]
fn read_annotations_require_a_permit_to_load_a_table() {
    let policy = |action: &str, resource: &str| {
        format!("@id(\"a\") @row_filter(\"false\") permit (principal, {action}, {resource});")
    };
    let load = "action == Action::\"Load\"";
    for (action, resource) in [
        ("action == Action::\"ReadData\"", "resource"),
        ("action in Action::\"Write\"", "resource"),
        (load, "resource is View"),
        (load, "resource == View::\"w/n/v\""),
        (load, "resource in View::\"w/n/v\""),
        (load, "resource is View in Namespace::\"w/n\""),
    ] {
        let rejection = rejection(&policy(action, resource));
        assert!(
            rejection.contains("@row_filter: this permit does not include Load on a table"),
            "{rejection}"
        );
    }
    for (action, resource) in [
        (load, "resource"),
        ("action", "resource"),
        ("action in [Action::\"Read\", Action::\"Write\"]", "resource in Warehouse::\"w\""),
        (load, "resource is Table"),
        (load, "resource in Table::\"w/n/t\""),
    ] {
        build(&[file("a.cedar", &policy(action, resource))], &[]).expect("it is valid");
    }
}

#[test]
fn grant_has_the_read_restrictions_of_its_template() {
    let template = "@id(\"grant-some\") @column_mask(\"x: show-last-4\") permit (principal in ?principal, \
                    action in Action::\"Read\", resource in ?resource);";
    let files = [default_policies(), vec![file("a.cedar", template)]].concat();
    let grants = ["grant-some", "grant-read"].map(|id| grant(id, Resource::warehouse("w")));
    let set = build(&files, &grants).expect("it is valid");
    let [some, all] = grants.map(|grant| grant.to_string());
    let rules = set.read_rules(std::slice::from_ref(&some)).expect("not all may be read");
    assert_eq!(rules.rules().len(), 1);
    assert_eq!(rules.rules()[0].policy, some);
    assert_eq!(set.read_rules(&[some, all]), None);
    // A filter that selects all rows is not a restriction.
    let open = "@id(\"open\") @row_filter(\"true\") permit (principal, action, resource);";
    let set = build(&[file("a.cedar", open)], &[]).expect("it is valid");
    assert_eq!(set.read_rules(&["open".to_owned()]), None);
}
