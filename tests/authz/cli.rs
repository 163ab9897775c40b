//! `slateberg policy`, as a program: output and exit codes.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Runs `slateberg policy` in a directory. Returns exit code, standard output and standard error.
fn policy(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_slateberg"))
        .current_dir(directory)
        .env_remove("SLATEBERG_URL")
        .arg("policy")
        .args(arguments)
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("it ended by itself"), text(&output.stdout), text(&output.stderr))
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().expect("a directory can be made");
    for (name, text) in files {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it is in a directory")).expect("it is made");
        std::fs::write(file, text).expect("a file can be written");
    }
    directory
}

const TEAM: &str = "@id(\"team\")\n@description(\"The team reads its own.\")\n\
    permit (principal in Group::\"team\", action in Action::\"Read\", resource in Namespace::\"w/team\");\n";
const BROKEN: &str =
    "@id(\"team\")\npermit (\n  principal in Team::\"team\", action, resource\n);\n";
const EXPECTED: &str = r#"
policies = ["policies"]

[principals]
ann = { groups = ["team"] }
bob = {}

[resources]
own = { table = "w/team/t" }
other = { table = "w/other/t" }

[[expect]]
principal = "ann"
action = "Read"
resource = "own"
decision = "allow"
by = ["team"]

[[expect]]
principal = ["ann", "bob"]
action = ["Load", "Drop"]
resource = "other"
decision = "deny"
"#;

#[test]
fn validate_counts_valid_policies_and_locates_invalid_ones() {
    let files = directory(&[("policies/team.cedar", TEAM), ("broken/team.cedar", BROKEN)]);
    let (code, out, _) = policy(files.path(), &["validate", "policies"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("valid: 1 policies and 0 templates in 1 files"), "{out}");
    let (code, out, _) = policy(files.path(), &["validate", "broken"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("error: broken/team.cedar:3:"), "{out}");
    let (code, out, _) = policy(files.path(), &["validate", "broken", "--output", "json"]);
    assert_eq!(code, 1);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(json["valid"], false);
    assert_eq!(json["errors"][0]["line"], 3);
    // The two files form one set: the id is a duplicate.
    let (code, out, _) =
        policy(files.path(), &["validate", "policies/team.cedar", "policies/team.cedar"]);
    assert_eq!(code, 1);
    assert!(out.contains("is taken"), "{out}");
}

#[test]
fn policy_that_never_matches_gets_a_warning() {
    let never =
        "@id(\"never\") permit (principal, action == Action::\"Load\", resource is Namespace);";
    let files = directory(&[("never.cedar", never)]);
    let (code, out, _) = policy(files.path(), &["validate", "never.cedar"]);
    assert_eq!((code, out.starts_with("warning: never.cedar:1:")), (0, true), "{out}");
    let (code, _, _) = policy(files.path(), &["validate", "never.cedar", "--deny-warnings"]);
    assert_eq!(code, 1);
}

#[test]
fn policy_test_passes_or_shows_the_differences() {
    let wrong = EXPECTED.replace("\"deny\"", "\"allow\"");
    let files = directory(&[
        ("policies/team.cedar", TEAM),
        ("expected.toml", EXPECTED),
        ("wrong.toml", &wrong),
    ]);
    let (code, out, err) = policy(files.path(), &["test", "expected.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!(out, @"expected.toml: 8 decisions, 8 as expected, 0 not");
    let (code, out, _) = policy(files.path(), &["test", "wrong.toml"]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(out, @r#"
    wrong.toml: 8 decisions, 4 as expected, 4 not
    EXPECT  PRINCIPAL  ACTION  RESOURCE  EXPECTED  DECISION  BY
    #2      ann        Load    other     allow     deny      no policy
    #2      ann        Drop    other     allow     deny      no policy
    #2      bob        Load    other     allow     deny      no policy
    #2      bob        Drop    other     allow     deny      no policy
    "#);
    let (code, out, _) = policy(files.path(), &["test", "wrong.toml", "--output", "json"]);
    assert_eq!(code, 1);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(json["passed"], false);
    assert_eq!(json["files"][0]["outcomes"][7]["decision"], "deny");
}

const RESTRICTED: &str = "@id(\"eu\")\n@row_filter(\"{\\\"type\\\": \\\"eq\\\", \\\"term\\\": \\\"region\\\", \\\"value\\\": \\\"EU\\\"}\")\n\
    @column_mask(\"email: replace-with-null\")\n\
    permit (principal in Group::\"team\", action in [Action::\"Load\", Action::\"ReadData\"], resource == Table::\"w/team/t\");\n";
const READS: &str = r#"
policies = ["policies"]

[principals]
ann = { groups = ["team"] }

[resources]
own = { table = "w/team/t" }

[[expect]]
principal = "ann"
action = ["Load", "ReadData"]
resource = "own"
decision = "allow"
[[expect.reads]]
row-filter = '{"type": "eq", "term": "region", "value": "EU"}'
column-mask = "email: replace-with-null"
"#;

#[test]
fn policy_test_checks_read_restrictions() {
    let other_rows = READS.replace("EU", "US");
    let rows = READS.split("[[expect.reads]]").next().expect("it is there");
    let whole = format!("{rows}reads = \"whole\"\n");
    let files = directory(&[
        ("policies/eu.cedar", RESTRICTED),
        ("expected.toml", READS),
        ("rows.toml", &other_rows),
        ("whole.toml", &whole),
    ]);
    let (code, out, err) = policy(files.path(), &["test", "expected.toml"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for wrong in ["rows.toml", "whole.toml"] {
        let (code, out, _) = policy(files.path(), &["test", wrong, "--output", "json"]);
        assert_eq!(code, 1, "{out}");
        let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
        let outcomes = &json["files"][0]["outcomes"];
        assert_eq!(outcomes[0]["reads"][0]["row-filter"]["value"], "EU", "{out}");
        assert_eq!(outcomes[1]["passed"], true, "this action is not a load: {out}");
    }
    let (code, out, _) = policy(files.path(), &["test", "whole.toml"]);
    assert_eq!(code, 1);
    assert!(out.contains("allow, reads the whole table"), "{out}");
    for (reads, message) in [
        ("reads = \"all\"", "expected \"whole\" or a list"),
        ("reads = [{ row-filter = \"{}\" }]", "reads: "),
        ("reads = [{ filter = \"true\" }]", "reads"),
    ] {
        std::fs::write(files.path().join("bad.toml"), format!("{rows}{reads}\n")).expect("written");
        let (code, _, err) = policy(files.path(), &["test", "bad.toml"]);
        assert!(code != 0 && err.contains(message), "{reads}: {code} {err}");
    }
    let denied = whole.replace("\"allow\"", "\"deny\"");
    std::fs::write(files.path().join("denied.toml"), denied).expect("a file can be written");
    let (code, _, err) = policy(files.path(), &["test", "denied.toml"]);
    assert!(code != 0 && err.contains("action Load"), "{err}");
}

#[test]
fn invalid_policy_test_fails() {
    for (text, reason) in [
        ("expect = []\nprincipal = 1", "unknown field `principal`"),
        (
            "[resources]\nr = { table = \"w/t\" }\n[[expect]]\nprincipal = \"p\"\naction = \"Load\"\nresource = \"r\"\ndecision = \"allow\"",
            "not a table: 'w/t'. Write WAREHOUSE/NAMESPACE/NAME",
        ),
        (
            "[[expect]]\nprincipal = \"p\"\naction = \"Load\"\nresource = \"r\"\ndecision = \"allow\"",
            "expectation 1: the file defines no principal 'p'",
        ),
        (
            "[principals]\np = {}\n[resources]\nr = { catalog = true }\n[[expect]]\nprincipal = \"p\"\naction = \"Lod\"\nresource = \"r\"\ndecision = \"allow\"",
            "expectation 1: unknown action Lod",
        ),
    ] {
        let files = directory(&[("wrong.toml", text)]);
        let (code, _, err) = policy(files.path(), &["test", "wrong.toml"]);
        assert_eq!(code, 1);
        assert!(err.contains(reason), "{err}");
    }
}

#[test]
fn explain_prints_the_decision_and_its_policies() {
    let files = directory(&[("team.cedar", TEAM)]);
    let ann = ["explain", "--user", "corp/ann", "--group", "team", "--policies", "team.cedar"];
    let ask = |more: &[&str]| policy(files.path(), &[&ann[..], more].concat());
    let (code, out, _) = ask(&["--action", "Load", "--table", "w/team/t"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r#"
    allow: corp/ann Load Table::"w/team/t"
    POLICY  EFFECT  DESCRIPTION
    team    permit  The team reads its own.
    "#);
    let (code, out, _) = ask(&["--action", "Drop", "--table", "w/team/t"]);
    assert_eq!(code, 3);
    insta::assert_snapshot!(out, @r#"
    deny: corp/ann Drop Table::"w/team/t"
    no policy permits it
    "#);
    // The principal is a role without a user.
    let role = ["explain", "--role", "admin", "--offline", "--action", "Drop", "--table", "w/t/t"];
    let (code, out, _) = policy(files.path(), &role);
    assert_eq!((code, out.lines().next()), (0, Some("allow: role:admin Drop Table::\"w/t/t\"")));
    let role = ["explain", "--role", "reader", "--offline", "--action", "Drop", "--table", "w/t/t"];
    let (code, out, _) = policy(files.path(), &role);
    assert_eq!(code, 3);
    insta::assert_snapshot!(out, @r#"
    deny: role:reader Drop Table::"w/t/t"
    no policy permits it
    the role admin or writer would permit it
    a grant of write or own would permit it, for example:
      slateberg grant write --to role:reader --on table:w/t/t
    "#);
    let (code, out, _) =
        ask(&["--action", "Load", "--table", "w/team/t", "--scope", "v", "--output", "json"]);
    assert_eq!(code, 3);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(json["decision"], "deny");
    assert_eq!(json["policies"], serde_json::json!(["credential-scope"]));
    let (code, _, err) = ask(&["--action", "Lod", "--table", "w/team/t"]);
    assert_eq!(code, 2);
    assert!(
        err.contains(
            "unknown action 'Lod'. Did you mean Load? The actions on a Table are CommitData"
        ),
        "{err}"
    );
    let (code, _, err) = ask(&["--action", "Load", "--catalog"]);
    assert_eq!((code, err.contains("Load does not apply to a Catalog")), (2, true), "{err}");
}

#[test]
fn explain_prints_read_restrictions() {
    let policies = r#"
        @id("eu")
        @row_filter("{\"type\": \"eq\", \"term\": \"region\", \"value\": \"EU\"}")
        @column_mask("phone: show-last-4, email: sha-256-global")
        permit (principal in Group::"eu", action == Action::"Load", resource);
        @id("nobody") @column_mask("phone: replace-with-null")
        permit (principal in Group::"eu", action == Action::"Load", resource);
    "#;
    let files = directory(&[("some.cedar", policies)]);
    let ask = |output| {
        let ann = ["explain", "--user", "corp/ann", "--group", "eu", "--policies", "some.cedar"];
        let load = ["--action", "Load", "--table", "w/n/t", "--output", output];
        policy(files.path(), &[&ann[..], &load].concat())
    };
    let (code, out, _) = ask("table");
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r#"
    allow: corp/ann Load Table::"w/n/t"
    POLICY  EFFECT  DESCRIPTION
    eu      permit
    nobody  permit

    readable rows and columns:
    POLICY  ROWS                                        MASKED COLUMNS
    eu      {"type":"eq","term":"region","value":"EU"}  email: sha-256-global, phone: show-last-4
    nobody  true                                        phone: replace-with-null
    "#);
    let (code, out, _) = ask("json");
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let first = serde_json::json!({
        "policy": "eu",
        "row-filter": { "type": "eq", "term": "region", "value": "EU" },
        "column-masks": { "email": "sha-256-global", "phone": "show-last-4" },
    });
    assert_eq!(json["read-rules"][0], first);
    let (code, _, err) = policy(files.path(), &["validate", "some.cedar"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn explain_uses_the_default_policies() {
    let files = directory(&[]);
    let (code, out, _) = policy(
        files.path(),
        &[
            "explain",
            "--service-account",
            "k1",
            "--role",
            "reader",
            "--action",
            "List",
            "--warehouse",
            "w",
        ],
    );
    assert_eq!(code, 0);
    assert!(out.contains("role-reader"), "{out}");
}

#[test]
fn explain_offline_needs_a_principal() {
    let files = directory(&[]);
    let ask = |who: &[&str]| {
        policy(files.path(), &[&["explain", "--action", "Load", "--table", "w/t"], who].concat())
    };
    for (who, why) in [
        (&[][..], "name the principal: --user, --service-account, --role or --group"),
        (&["--scope", "w"], "name the principal: --user, --service-account, --role or --group"),
        (&["--key", "k1"], "--key names an API key of a server"),
    ] {
        let (code, _, err) = ask(who);
        assert_eq!((code, err.contains(why)), (2, true), "{who:?}: {err}");
    }
    for elsewhere in [&["--url", "http://127.0.0.1:1"][..], &["--key", "k1"]] {
        let (code, _, err) = ask(&[elsewhere, &["--offline"]].concat());
        assert_eq!((code, err.contains("cannot be used with")), (2, true), "{elsewhere:?}: {err}");
    }
}
