//! `slateberg config`, and the settings of the program.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::authn_cli::Server;

/// Runs the program in a directory, with environment variables.
pub(crate) fn run(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(arguments).current_dir(directory).envs(variables.iter().copied());
    command.output().expect("it runs")
}

pub(crate) fn output_text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Checks a file. Returns the exit code and the JSON output.
pub(crate) fn checked(text: &str, variables: &[(&str, &str)]) -> (i32, Value) {
    let directory = tempfile::tempdir().expect("there is room");
    fs::write(directory.path().join("s.toml"), text).expect("it is written");
    let arguments = ["config", "check", "--config", "s.toml", "--output", "json"];
    let output = run(directory.path(), variables, &arguments);
    let found = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(!directory.path().join("slateberg-data").exists(), "nothing is written");
    (output.status.code().expect("it exits"), found)
}

#[test]
fn config_check_summarizes_valid_settings() {
    let directory = tempfile::tempdir().expect("there is room");
    let output = run(directory.path(), &[], &["config", "check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = output_text(&output);
    assert!(text.starts_with("ok: the defaults\n"), "{text}");
    assert!(text.contains("http://127.0.0.1:8181"), "{text}");
    assert!(text.contains("default at file://"), "{text}");
}

#[test]
fn config_check_reports_every_problem_with_its_location() {
    let directory = tempfile::tempdir().expect("there is room");
    let text = "[server]\nlisen = \"127.0.0.1:1\"\nbody_bytes_max = \"much\"\n\n[nothing]\nx = 1\n";
    fs::write(directory.path().join("s.toml"), text).expect("it is written");
    let variables = [("SLATEBERG__STORE__BLOCK_CASH_BYTES", "1")];
    let output = run(directory.path(), &variables, &["config", "check", "--config", "s.toml"]);
    assert_eq!(output.status.code(), Some(78));
    let text = output_text(&output);
    for part in [
        "server.lisen: unknown key\n  --> s.toml:2:1",
        " 2 | lisen = \"127.0.0.1:1\"\n   | ^^^^^\n   = did you mean 'listen'?",
        "server.body_bytes_max: expected",
        "--> s.toml:3:1",
        "nothing: unknown key\n  --> s.toml:5:2",
        "store.block_cash_bytes: unknown key\n  --> variable SLATEBERG__STORE__BLOCK_CASH_BYTES",
        "did you mean 'block_cache_bytes'?",
        "4 problems in s.toml, 1 variable",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // `slateberg serve` reports the same problems, and does not start.
    let output = run(directory.path(), &variables, &["serve", "--config", "s.toml"]);
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.contains("server.lisen: unknown key\n  --> s.toml:2:1"), "{text}");
}

#[test]
fn misspelled_log_level_is_rejected_with_a_suggestion() {
    let (code, report) = checked("[log]\nlevel = \"warning\"\n", &[]);
    assert_eq!(code, 78);
    let problem = &report["problems"][0];
    assert_eq!((&problem["line"], &problem["help"]), (&2.into(), &"did you mean 'warn'?".into()));

    let directory = tempfile::tempdir().expect("a temporary directory");
    let variables = [("SLATEBERG__LOG__LEVEL", "info,slatedbb=debug")];
    for arguments in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let output = run(directory.path(), &variables, arguments);
        assert!(matches!(output.status.code(), Some(78)), "{output:?}");
        let text = output_text(&output) + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("no crate 'slatedbb' logs in this program"), "{text}");
        assert!(text.contains("did you mean 'slatedb'?"), "{text}");
    }
}

#[test]
fn syntax_error_in_toml_is_reported_with_its_line() {
    let (code, told) = checked("[server]\nlisten = \n", &[]);
    assert_eq!(code, 78);
    let problem = &told["problems"][0];
    assert_eq!((&problem["file"], &problem["line"]), (&"s.toml".into(), &2.into()), "{told}");
}

#[test]
fn config_check_finds_errors_that_would_fail_a_start() {
    for (text, key, part) in [
        ("default_warehouse = \"lake\"", "default_warehouse", "no warehouse 'lake'"),
        ("[server.tls]\ncertificate_file = \"no.pem\"", "server.tls.key_file", "certificate_file"),
        (
            "[server.tls]\ncertificate_file = \"no.pem\"\nkey_file = \"no.pem\"",
            "server.tls.certificate_file",
            "No such file",
        ),
        ("[authz]\npolicy_paths = [\"no.cedar\"]", "authz.policy_paths", "no.cedar"),
        ("[warehouses.lake]\nlocation = \"lake\"", "warehouses.lake", "Invalid location"),
        ("[state]\nurl = \"ftp://x/y\"", "state.url", "ftp://x/y"),
        ("[state]\nurl = \"s3://bucket\"", "warehouses.default.location", "occupies all of"),
        ("[server.cors]\nallowed_origins = [\"x\"]", "server.cors.allowed_origins", "'x'"),
        (
            "[server]\nlisten = \"0.0.0.0:1\"\n[authn]\ninsecure_no_auth = true",
            "authn",
            "0.0.0.0:1",
        ),
        (
            "[server.management]\nlisten = \"0.0.0.0:1\"\n[authn]\ninsecure_no_auth = true",
            "authn",
            "0.0.0.0:1",
        ),
        ("[encryption]\nkms = \"local\"", "encryption.local_key_file", "is missing"),
        ("[audit]\nto = \"file\"\nfile = \"no/such/file\"", "audit.file", "directory"),
        ("[authn]\nbootstrap_key = \"sb_x\"", "authn.bootstrap_key", "slateberg key generate"),
        ("[log]\nlevel = \"warning\"", "log.level", "unknown level 'warning'"),
        ("[log]\nlevel = \"slatedbb=info\"", "log.level", "no crate 'slatedbb'"),
    ] {
        let (code, told) = checked(text, &[]);
        assert_eq!(code, 78, "{text}: {told}");
        let problems = told["problems"].as_array().expect("a list");
        let fits = |problem: &&Value| {
            problem["key"].as_str().is_some_and(|it| it.starts_with(key))
                && problem["message"].as_str().is_some_and(|it| it.contains(part))
        };
        assert!(problems.iter().any(|problem| fits(&problem)), "{text}: {told}");
    }
}

#[test]
fn exit_code_distinguishes_invalid_settings_from_retryable_failures() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let taken = listener.local_addr().expect("it is bound").to_string();
    for (text, listen, code) in [
        ("default_warehouse = \"lake\"", "127.0.0.1:0", 78),
        ("[server.tls]\nkey_file = \"a.pem\"", "127.0.0.1:0", 78),
        ("[server.tls]\ncertificate_file = \"a.pem\"\nkey_file = \"a.pem\"", "127.0.0.1:0", 1),
        ("[authz]\npolicy_paths = [\"no.cedar\"]", "127.0.0.1:0", 1),
        ("[encryption]\nkms = \"local\"", "127.0.0.1:0", 78),
        ("[authn]\nbootstrap_key = \"sb_x\"", "127.0.0.1:0", 78),
        ("[catalog]\nlocal_warehouse_dirs = [\"here\"]", "127.0.0.1:0", 78),
        ("[state]\nurl = \"ftp://x/y\"", "127.0.0.1:0", 78),
        ("[audit]\nto = \"file\"\nfile = \"no/such/file\"", "127.0.0.1:0", 1),
        ("", &taken, 75),
    ] {
        let directory = tempfile::tempdir().expect("there is room");
        fs::write(directory.path().join("s.toml"), text).expect("it is written");
        let arguments = ["serve", "--config", "s.toml", "--listen", listen];
        let output = run(directory.path(), &[], &arguments);
        assert_eq!(output.status.code(), Some(code), "{text}: {output:?}");
    }
}

#[test]
fn start_that_waits_for_its_bucket_can_be_stopped() {
    // The listener accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("it is bound"));
    let directory = tempfile::tempdir().expect("there is room");
    let state = "[state]\nurl = \"s3://b/p\"\n[state.options]\naws_allow_http = \"true\"\n";
    let keys = "aws_access_key_id = \"a\"\naws_secret_access_key = \"b\"\n";
    let settings = format!("{state}{keys}aws_endpoint = \"{endpoint}\"\n");
    fs::write(directory.path().join("s.toml"), settings).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(["serve", "--config", "s.toml", "--listen", "127.0.0.1:0"]);
    let log = fs::File::create(directory.path().join("log")).expect("there is room");
    let mut child = command.current_dir(directory.path()).stdout(log).spawn().expect("it starts");
    // The server has connected to the bucket.
    drop(silent.accept().expect("it connects"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("it runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn output_contains_no_secret() {
    let text = "[credentials.lake]\naws_secret_access_key = 271828\n\
                [state]\nurl = \"s3://b/p\"\n[state.options]\naws_secret_access_key = 271828\n\
                aws_region = \"here\"\n[authn]\nbootstrap_key = \"sb_271828\"\n";
    let directory = tempfile::tempdir().expect("there is room");
    fs::write(directory.path().join("s.toml"), text).expect("it is written");
    let output = run(directory.path(), &[], &["config", "check", "--config", "s.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(!output_text(&output).contains("271828"), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("credentials.lake.aws_secret_access_key"),
        "{}",
        output_text(&output)
    );

    let text = text.replace("271828", "\"271828\"").replace("\"sb_\"271828\"\"", "\"sb_271828\"");
    fs::write(directory.path().join("s.toml"), text).expect("it is written");
    let output = run(directory.path(), &[], &["config", "show", "--config", "s.toml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = output_text(&output);
    assert!(!text.contains("271828"), "{text}");
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).expect(key).to_owned();
    assert!(line("state.options.aws_region ").contains("\"here\""), "{text}");
    assert!(line("state.options.aws_secret_access_key ").contains("(hidden)"), "{text}");
    assert!(line("state.options.aws_region ").ends_with("s.toml:7:1"), "{text}");
    assert!(line("server.listen ").ends_with("default"), "{text}");
}

#[test]
fn bootstrap_key_is_taken_from_the_settings() {
    let directory = tempfile::tempdir().expect("there is room");
    let key = output_text(&run(directory.path(), &[], &["key", "generate"]));
    let key = key.trim();
    fs::write(directory.path().join("first"), format!("{key}\n")).expect("it is written");
    let settings = "[authn]\nbootstrap_key_file = \"first\"\n";
    fs::write(directory.path().join("s.toml"), settings).expect("it is written");

    let server = Server::start(directory.path(), &["--config", "s.toml"]);
    assert_eq!(server.keys(), Vec::<String>::new(), "a configured key is not printed");
    let listed = server.run(directory.path(), key, &["key", "list", "--output", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["api-keys"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["api-keys"][0]["roles"], serde_json::json!(["admin"]));
    drop(server);

    // Another value of this setting has no effect, because only the first start on a store reads
    // the setting.
    let other = output_text(&run(directory.path(), &[], &["key", "generate"]));
    assert_ne!(other.trim(), key);
    fs::write(directory.path().join("first"), &other).expect("it is written");
    let server = Server::start(directory.path(), &["--config", "s.toml"]);
    assert!(!server.run(directory.path(), other.trim(), &["key", "list"]).status.success());
    assert!(server.run(directory.path(), key, &["key", "list"]).status.success());
}

#[tokio::test]
async fn warehouse_removed_from_the_settings_is_reported_if_it_is_not_empty() {
    let directory = tempfile::tempdir().expect("there is room");
    let start = |settings: &str| {
        fs::write(directory.path().join("s.toml"), settings).expect("it is written");
        Server::start(directory.path(), &["--insecure-no-auth", "--config", "s.toml"])
    };
    let has_told = || {
        let log = fs::read_to_string(directory.path().join("log")).expect("there is a log");
        log.contains("is missing from the settings")
    };
    let lake = "default_warehouse = \"lake\"\n[warehouses.lake]\n";
    start("").stop();
    start(lake).stop();
    assert!(!has_told(), "an empty warehouse is not reported");

    let server = start("");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.post(format!("{}/v1/namespaces", server.uri));
    let response = request.json(&serde_json::json!({ "namespace": ["ns"] })).send().await;
    assert_eq!(response.expect("it is there").status(), 200);
    server.stop();
    start(lake).stop();
    assert!(has_told());
    start(&format!("{lake}[warehouses.default]")).stop();
    assert!(!has_told(), "a warehouse in the settings is not reported");
}

/// Settings in which the state shares files with a warehouse, or one warehouse with another. Each
/// has the key and the message of the expected report.
const OVERLAPS: [(&str, &str, &str); 6] = [
    (
        "[state]\nurl = \"file://ROOT/wh/state\"\n[warehouses.default]\nlocation = \"file://ROOT/wh\"",
        "warehouses.default.location",
        "the catalog's own state is there",
    ),
    (
        "[state]\nurl = \"file://ROOT/wh\"\n[warehouses.default]\nlocation = \"file://ROOT/wh/tables\"",
        "warehouses.default.location",
        "the catalog's own state is there",
    ),
    (
        "[state]\nurl = \"file://ROOT/wh\"\n[warehouses.default]\nlocation = \"file://ROOT/link\"",
        "warehouses.default.location",
        "the catalog's own state is there",
    ),
    (
        "data_dir = \"ROOT/wh\"\n[warehouses.default]\nlocation = \"file://ROOT/wh\"",
        "warehouses.default.location",
        "the catalog's own state is there",
    ),
    (
        "[warehouses.other]\nlocation = \"file://ROOT/wh\"\n[warehouses.default]\nlocation = \"file://ROOT/wh/x\"",
        "warehouses.other.location",
        "it overlaps with the location of the warehouse default",
    ),
    (
        "[audit]\nto = \"file\"\nfile = \"ROOT/wh/audit.log\"\n[warehouses.default]\nlocation = \"file://ROOT/wh\"",
        "warehouses.default.location",
        "the catalog's audit log is there",
    ),
];

#[test]
fn settings_that_let_state_and_tables_overlap_are_rejected_by_every_command_that_opens_the_store() {
    for (text, key, part) in OVERLAPS {
        let root = tempfile::tempdir().expect("there is room");
        let path = root.path().canonicalize().expect("it exists");
        fs::create_dir(path.join("wh")).expect("it can be created");
        std::os::unix::fs::symlink(path.join("wh"), path.join("link")).expect("a link");
        let text = text.replace("ROOT", path.to_str().expect("it is UTF-8"));
        let (code, told) = checked(&text, &[]);
        assert_eq!(code, 78, "{text}: {told}");
        let problems = told["problems"].as_array().expect("a list");
        assert_eq!(problems.len(), 1, "{text}: {told}");
        assert_eq!(problems[0]["key"], key, "{text}: {told}");
        assert!(problems[0]["message"].as_str().is_some_and(|it| it.contains(part)), "{told}");
        // These directories exist if an older binary has served the store with such settings.
        fs::create_dir_all(path.join("wh/state")).expect("it can be created");
        fs::create_dir_all(path.join("slateberg-data/state")).expect("it can be created");
        fs::write(path.join("s.toml"), &text).expect("it is written");
        for command in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["fsck"],
            &["export", "lines.jsonl"],
            &["checkpoint", "list", "--offline"],
        ] {
            let arguments = [command, &["--config", "s.toml"]].concat();
            let output = run(&path, &[], &arguments);
            let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(78), "{command:?} {text}: {output:?}");
            assert!(
                output_text.contains(key) && output_text.contains(part),
                "{command:?} {text}: {output_text}"
            );
        }
    }
}
