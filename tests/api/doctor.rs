//! `slateberg doctor`: checks of a configuration's environment.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use super::authn_cli::Server;
use super::config_cli::{output_text, run};

/// Returns an address without a listener.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// Runs all checks of these settings. Returns the exit code and the report.
fn examined(directory: &Path, settings: &str) -> (i32, Value) {
    fs::write(directory.join("s.toml"), settings).expect("a written file");
    let arguments = ["doctor", "--config", "s.toml", "--output", "json"];
    let output = run(directory, &[], &arguments);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code().expect("an exit code"), report.unwrap_or_else(|_| panic!("{output:?}")))
}

fn check<'a>(report: &'a Value, subject: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().expect("a list").iter();
    checks.find(|it| it["subject"] == subject).unwrap_or_else(|| panic!("{subject}: {report:#}"))
}

fn message(check: &Value) -> &str {
    check["message"].as_str().expect("a message")
}

#[test]
fn doctor_passes_a_good_configuration_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = format!("data_dir = \"data\"\n[server]\nlisten = \"{}\"\n", free_address());
    let (code, report) = examined(directory.path(), &settings);
    assert_eq!(code, 0, "{report:#}");
    assert!(message(check(&report, "state")).contains("will be created"), "{report:#}");
    assert!(message(check(&report, "warehouse default")).contains("will be created"), "{report:#}");
    assert!(message(check(&report, "client port")).contains("is free"), "{report:#}");
    let left = fs::read_dir(directory.path()).expect("a directory");
    let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["s.toml"]);

    let output = run(directory.path(), &[], &["doctor", "--config", "s.toml"]);
    let text = output_text(&output);
    assert!(text.contains("ok       client port"), "{text}");
    assert!(text.contains("checks: 0 failed"), "{text}");
}

#[test]
fn doctor_recognizes_a_running_server_and_does_not_disturb_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(directory.path(), &["--insecure-no-auth"]);
    let address = server.uri.trim_start_matches("http://");
    let settings = format!("data_dir = \"data\"\n[server]\nlisten = \"{address}\"\n");
    let (code, report) = examined(directory.path(), &settings);
    assert_eq!(code, 0, "{report:#}");
    let port = message(check(&report, "client port"));
    assert!(port.contains("in use by a running slateberg"), "{port}");
    assert!(message(check(&report, "state")).contains("can be written"), "{report:#}");
    server.stop();
}

#[test]
fn doctor_names_what_fails_and_what_to_do() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("an address");
    // The listener accepts connections and closes them: it is not slateberg.
    std::thread::spawn(move || while other.accept().is_ok() {});
    let settings = format!(
        "data_dir = \"data\"\n[server]\nlisten = \"{taken}\"\n[authn.issuers.a]\nissuer = \"a\"\n\
         audiences = [\"a\"]\njwks_url = \"http://{}/keys\"\n",
        free_address()
    );
    let (code, report) = examined(directory.path(), &settings);
    assert_eq!(code, 1, "{report:#}");
    let port = check(&report, "client port");
    assert_eq!(port["outcome"], "failed");
    assert!(port["help"].as_str().is_some_and(|it| it.contains("another program")), "{port}");
    let issuer = check(&report, "issuer a");
    assert_eq!(issuer["outcome"], "failed");
    assert!(message(issuer).contains("refused"), "{issuer}");
    assert_eq!(check(&report, "state")["outcome"], "ok");
}

#[test]
fn doctor_reports_a_store_that_does_not_answer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[state]\nurl = \"s3://b/p\"\n[state.options]\n\
         aws_endpoint = \"http://{}\"\naws_allow_http = \"true\"\naws_region = \"x\"\n\
         aws_access_key_id = \"a\"\naws_secret_access_key = \"b\"\n",
        free_address()
    );
    let (code, report) = examined(directory.path(), &settings);
    assert_eq!(code, 1, "{report:#}");
    for subject in ["state", "warehouse default"] {
        let store = check(&report, subject);
        assert_eq!(store["outcome"], "failed");
        assert!(store["help"].as_str().is_some_and(|it| it.contains("endpoint")), "{store}");
    }
}

#[test]
fn doctor_ends_with_code_78_if_the_settings_are_wrong() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (code, report) = examined(directory.path(), "[catalog]\ncommit_deadline_ms = 0\n");
    assert_eq!((code, &report["valid"]), (78, &false.into()), "{report:#}");
    assert_eq!(report["problems"][0]["key"], "catalog.commit_deadline_ms");
}
