//! `slateberg policy`, `grant` and `revoke` against a running server.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::authn_cli::{Server, output_text};

/// Starts a server with policy files of its own, and returns it with its admin key.
fn server(directory: &Path) -> (Server, String) {
    let policies = directory.join("policies");
    std::fs::create_dir(&policies).expect("it can be made");
    for file in slateberg_authz::bundled::default_policies() {
        let name = Path::new(&file.name).file_name().expect("a name").to_owned();
        std::fs::write(policies.join(name), file.text).expect("it can be written");
    }
    let settings = "[authz]\npolicy_paths = [\"policies\"]\npolicy_reload_seconds = 0\n";
    std::fs::write(directory.join("settings.toml"), settings).expect("it can be written");
    let server = Server::start(directory, &["--config", "settings.toml"]);
    let admin = server.keys()[0].clone();
    (server, admin)
}

/// Splits lines into words.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn policies_are_put_compared_and_rolled_back() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, admin) = server(at);
    let run = |arguments: &[&str]| server.run(at, &admin, &[&["policy"], arguments].concat());
    let policy = "@id(\"team\")\n@description(\"The team reads.\")\npermit (\n  principal in \
                  Group::\"team\",\n  action in Action::\"Read\",\n  resource\n);\n";
    std::fs::write(at.join("team.cedar"), policy).expect("it can be written");

    let output = output_text(run(&["put", "team.cedar", "--dry-run"]));
    assert!(output.starts_with("policy team added\n+ @id(\"team\")\n"), "{output}");
    assert!(output.ends_with("dry run: nothing was changed\n"), "{output}");
    let put =
        output_text(run(&["put", "team.cedar", "--comment", "for the team", "--expect", "0"]));
    assert!(put.contains("revision 1, in force "), "{put}");
    let late = run(&["put", "team.cedar", "--expect", "0"]);
    assert!(String::from_utf8_lossy(&late.stderr).contains("the newest is 1"));
    assert_eq!(output_text(run(&["show", "team"])), policy);
    let listed = output_text(run(&["list", "--origin", "api"]));
    assert_eq!(rows(&listed)[0], ["POLICY", "EFFECT", "ORIGIN", "FROM", "DESCRIPTION"]);
    assert_eq!(rows(&listed)[1], ["team", "permit", "api", "The", "team", "reads."]);
    assert_eq!(output_text(run(&["list"])).lines().count(), 12);

    std::fs::write(at.join("team.cedar"), policy.replace("Read", "Browse")).expect("written");
    output_text(run(&["put", "team.cedar"]));
    let diff = output_text(run(&["diff", "1"]));
    let lines: Vec<_> = diff.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        lines,
        [
            "policy team changed",
            "-   action in Action::\"Read\",",
            "+   action in Action::\"Browse\",",
        ]
    );
    output_text(run(&["rollback", "1", "--comment", "as it was"]));
    assert_eq!(output_text(run(&["show", "team"])), policy);
    output_text(run(&["delete", "team"]));
    let history = output_text(run(&["history"]));
    let found: Vec<_> = rows(&history)[1..].iter().map(|row| (row[0], row[4], row[5])).collect();
    assert_eq!(
        found,
        [
            ("4", "remove_policy", "-team"),
            ("3", "roll_back_policies", "~team"),
            ("2", "put_policy", "~team"),
            ("1", "put_policy", "+team"),
        ]
    );
    assert!(history.contains("for the team") && history.contains("as it was"), "{history}");
    let newest: Value =
        serde_json::from_str(&output_text(run(&["history", "--limit", "1", "--output", "json"])))
            .expect("JSON");
    assert_eq!(newest["revisions"].as_array().map(Vec::len), Some(1));

    std::fs::write(at.join("team.cedar"), "@id(\"team\") permit (principal").expect("written");
    let broken = run(&["put", "team.cedar"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("team.cedar:1:"));
    assert_eq!(run(&["put", "absent.cedar"]).status.code(), Some(1));
    assert_eq!(run(&["show", "absent"]).status.code(), Some(1));
}

#[test]
fn grants_are_created_listed_explained_and_revoked() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, admin) = server(at);
    let run = |arguments: &[&str]| server.run(at, &admin, arguments);
    let created =
        output_text(run(&["grant", "read", "--to", "group:team", "--on", "warehouse:default"]));
    assert!(created.starts_with("granted read to group:team on warehouse:default: "), "{created}");
    let again = output_text(run(&[
        "grant",
        "grant-read",
        "--to",
        "group:team",
        "--on",
        "warehouse:default",
    ]));
    assert!(again.contains("was already granted to group:team on warehouse:default"), "{again}");
    output_text(run(&[
        "grant",
        "own",
        "--to",
        "user:corp/ann",
        "--on",
        "warehouse:default",
        "--dry-run",
    ]));
    let listed = output_text(run(&["grants"]));
    assert_eq!(rows(&listed).len(), 2, "{listed}");
    assert_eq!(rows(&listed)[1][1..4], ["read", "group:team", "warehouse:default"]);
    assert_eq!(rows(&output_text(run(&["grants", "--to", "group:other"]))).len(), 1);

    let ask = |more: &[&str]| {
        let question = ["policy", "explain", "--action", "Load", "--table", "default/n/t"];
        run(&[&question[..], more].concat())
    };
    let allowed = ask(&["--user", "corp/ann", "--group", "team"]);
    let output = output_text(allowed);
    assert!(output.starts_with("allow: corp/ann Load table:default/n/t\n"), "{output}");
    assert!(output.contains("grant-read[") && output.contains("grant"), "{output}");
    let denied = ask(&["--user", "corp/bob"]);
    assert_eq!(denied.status.code(), Some(3));
    let oneself: Value =
        serde_json::from_str(&output_text(ask(&["--output", "json"]))).expect("JSON");
    assert_eq!(oneself["policies"][0]["id"], "role-admin");
    // The decision is the first member, because people read the JSON too.
    let members: Vec<_> = oneself.as_object().expect("an object").keys().collect();
    assert_eq!(members[..3], ["decision", "policies", "principal"]);
    let twice = ask(&["--user", "x", "--policies", "policies", "--url", &server.uri]);
    assert_eq!(twice.status.code(), Some(2));
    // The local policies contain no grants, and cannot resolve credentials.
    for at_hand in [&["--policies", "policies"][..], &["--offline"]] {
        let denied = ask(&[at_hand, &["--user", "corp/ann", "--group", "team"]].concat());
        assert_eq!(denied.status.code(), Some(3), "{at_hand:?}");
        assert_eq!(ask(at_hand).status.code(), Some(2), "{at_hand:?}");
    }

    let wrong = run(&["grant", "read", "--to", "team", "--on", "warehouse:default"]);
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("not a grantee: 'team'. Write role:team")
    );
    let revoke = ["revoke", "read", "--from", "group:team", "--on", "warehouse:default"];
    let text = output_text(run(&[&revoke[..], &["--dry-run"]].concat()));
    assert!(text.ends_with(" would be revoked\n"), "{text}");
    assert_eq!(rows(&output_text(run(&["grants"]))).len(), 2);
    let own = ["grant", "own", "--to", "user:corp/ann", "--on", "warehouse:default"];
    for late in [&own[..], &revoke] {
        let late = run(&[late, &["--expect", "0"]].concat());
        assert!(String::from_utf8_lossy(&late.stderr).contains("the newest is 1"));
    }
    output_text(run(&[&revoke[..], &["--expect", "1"]].concat()));
    assert_eq!(rows(&output_text(run(&["grants"]))).len(), 1);
    let process_output = run(&revoke);
    assert!(String::from_utf8_lossy(&process_output.stderr).contains("was not granted"));
}

#[test]
fn sighup_reloads_policy_files() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, admin) = server(at);
    let file = at.join("policies/more.cedar");
    let listed = || output_text(server.run(at, &admin, &["policy", "list"]));
    let hang_up = || {
        let sent = Command::new("kill").args(["-HUP", &server.pid()]).status();
        assert!(sent.expect("kill is there").success());
    };
    let wait_for = |present: bool| {
        let since = Instant::now();
        while listed().contains("more.cedar:1") != present {
            assert!(since.elapsed() < Duration::from_secs(20), "the files are not reloaded");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let policy = "@id(\"more\") permit (principal == User::\"x\", action, resource);";
    // Waits for a response: from then on, the signal no longer kills the server.
    wait_for(false);
    std::fs::write(&file, policy).expect("it can be written");
    hang_up();
    wait_for(true);
    std::fs::write(&file, "@id(\"more\") permit").expect("it can be written");
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    wait_for(true);
    std::fs::remove_file(&file).expect("it was there");
    hang_up();
    wait_for(false);
}
