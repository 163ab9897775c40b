//! Rejections of `slateberg config check` and `slateberg serve`: key, position, reason and advice.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::config_cli::{checked, output_text, run};

/// Settings and the expected report: key, line, part of the message, part of the advice.
type Case = (&'static str, &'static str, u64, &'static str, &'static str);

const MINIO: &str = "[state]\nurl = \"s3://b/p\"\n[state.options]\naws_region = \"x\"\n";

fn assert_found((text, key, line, message, help): Case) {
    let (code, report) = checked(text, &[]);
    assert_eq!(code, 78, "{text}: {report}");
    let problems = report["problems"].as_array().expect("a list");
    let part = |value: &Value, part: &str| value.as_str().unwrap_or_default().contains(part);
    let fits = |it: &&Value| {
        it["key"] == key
            && it["line"] == line
            && part(&it["message"], message)
            && part(&it["help"], help)
    };
    assert_eq!(problems.iter().filter(fits).count(), 1, "{text}: {report:#}");
}

#[test]
fn a_bound_that_makes_no_sense_is_rejected_at_its_line() {
    for case in [
        ("[catalog]\ncommit_deadline_ms = 0", "catalog.commit_deadline_ms", 2, "at least 1", ""),
        (
            "[server]\nrequests_in_flight_max = 0",
            "server.requests_in_flight_max",
            2,
            "at least 1",
            "",
        ),
        (
            "[server]\nbody_seconds_max = 9223372036854775807",
            "server.body_seconds_max",
            2,
            "at most 315360000",
            "",
        ),
        (
            "[catalog]\norphan_age_seconds = 60",
            "catalog.orphan_age_seconds",
            2,
            "orphan_age_seconds_min",
            "",
        ),
    ] {
        assert_found(case);
    }
}

#[test]
fn one_port_for_clients_and_operators_is_rejected() {
    assert_found((
        "[server.management]\nlisten = \"127.0.0.1:8181\"",
        "server.management.listen",
        2,
        "port 8181 is also the port for clients",
        "choose another port",
    ));
}

#[test]
fn an_issuer_over_an_unencrypted_connection_is_rejected() {
    let key = "authn.issuers.corporate.issuer";
    let text = "[authn.issuers.corporate]\nissuer = \"http://id.example.com\"\naudiences = [\"a\"]";
    assert_found((text, key, 2, "expected https://", ""));
    let loopback = text.replace("id.example.com", "127.0.0.1:8080");
    assert_eq!(checked(&loopback, &[]).0, 0);
    let text = "[authn.issuers.corporate]\nissuer = \"https://id.example.com\"";
    let message = "must name at least one value, otherwise tokens issued for other services";
    assert_found((text, "authn.issuers.corporate.audiences", 1, message, ""));
}

#[test]
fn an_unencrypted_endpoint_of_a_store_has_to_be_allowed() {
    let text = "[state]\nurl = \"s3://b/p\"\n[state.options]\naws_endpoint = \"http://minio:9000\"";
    let message = "not allowed by default";
    assert_found((text, "state.options.aws_endpoint", 4, message, "aws_allow_http = \"true\""));
    let allowed = format!("{text}\naws_allow_http = \"true\"");
    assert_eq!(checked(&allowed, &[]).0, 0);
}

#[test]
fn a_misspelled_option_of_a_store_is_reported_once_at_its_own_line() {
    let text = "[state]\nurl = \"s3://b/p\"\n[state.options]\naws_regoin = \"x\"";
    let (_, report) = checked(text, &[]);
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(1), "{report:#}");
    let key = "state.options.aws_regoin";
    assert_found((text, key, 4, "unknown option", "did you mean 'aws_region'?"));
}

#[test]
fn values_of_the_wrong_type_are_named_as_in_toml() {
    for case in [
        (
            "[server]\nrequests_in_flight_max = \"4k\"",
            "server.requests_in_flight_max",
            2,
            "expected a whole number, got the string \"4k\"",
            "write 4096",
        ),
        (
            "[authn.issuers.a]\nissuer = \"https://id\"\naudiences = \"x\"",
            "authn.issuers.a.audiences",
            3,
            "expected an array, got the string \"x\"",
            "write [\"x\"]",
        ),
        (
            "[authn]\ninsecure_no_auth = 1",
            "authn.insecure_no_auth",
            2,
            "expected true or false",
            "",
        ),
        ("server = 1", "server", 1, "expected a table", ""),
        ("[server]\nlisten = \"8181\"", "server.listen", 2, "such as 127.0.0.1:8181", ""),
        (
            "[encryption]\nkey = \"x\"",
            "encryption.key",
            2,
            "unknown key",
            "did you mean 'aws_key'?",
        ),
        (
            "[warehouses.prod]\ncredentials = \"x\"",
            "warehouses.prod.credentials",
            2,
            "unknown key",
            "[warehouses.prod.options]",
        ),
    ] {
        assert_found(case);
    }
}

#[test]
fn all_files_of_tls_are_looked_at_even_if_one_is_missing_in_the_settings() {
    let text = "[server.tls]\ncertificate_file = \"no.pem\"";
    let message = "is missing; it is required because certificate_file is set";
    assert_found((text, "server.tls.key_file", 1, message, ""));
    assert_found((text, "server.tls.certificate_file", 2, "no.pem: No such file", ""));
}

#[test]
fn a_separator_that_no_path_can_have_is_rejected() {
    let text = "[warehouses.default.client_overrides]\nnamespace-separator = \"%2F\"";
    let key = "warehouses.default.client_overrides.namespace-separator";
    assert_found((text, key, 2, "one character of punctuation such as %2E", ""));
    assert_eq!(checked(&text.replace("%2F", "%2E"), &[]).0, 0);
}

#[test]
fn the_last_line_names_files_that_cannot_be_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let report = |arguments: &[&str]| output_text(&run(directory.path(), &[], arguments));
    let missing = report(&["config", "check", "--config", "nope.toml"]);
    assert!(missing.ends_with("1 problem in nope.toml\n"), "{missing}");
    fs::write(directory.path().join("s.toml"), "[server\n").expect("a written file");
    let broken = report(&["config", "check", "--config", "s.toml"]);
    assert!(broken.ends_with("1 problem in s.toml\n"), "{broken}");
}

#[test]
fn a_variable_with_wrong_underscores_is_rejected_and_other_unknown_ones_are_warned_of() {
    let (code, report) = checked("", &[("SLATEBERG_SERVER_LISTEN", "0.0.0.0:1")]);
    assert_eq!(code, 78, "{report}");
    let problem = &report["problems"][0];
    assert_eq!(problem["variable"], "SLATEBERG_SERVER_LISTEN");
    assert_eq!(problem["help"], "did you mean SLATEBERG__SERVER__LISTEN?");
    let (code, report) = checked("", &[("SLATEBERG__SERVER_LISTEN", "0.0.0.0:1")]);
    assert_eq!((code, &report["problems"][0]["help"]), (78, &problem["help"]), "{report}");

    let known = [("SLATEBERG_URL", "x"), ("SLATEBERG_PORT_8181_TCP", "tcp://10.0.0.1:8181")];
    let (code, report) = checked("", &[known[0], known[1], ("SLATEBERG_API_KEYS", "x")]);
    assert_eq!(code, 0, "{report}");
    let of_keys = |it: &&Value| it["variable"] == "SLATEBERG_API_KEYS";
    let warnings = report["warnings"].as_array().expect("a list");
    let warning = warnings.iter().find(of_keys).expect("a warning");
    assert_eq!(warning["help"], "did you mean SLATEBERG_API_KEY?");
    assert!(warnings.iter().all(|it| it["variable"] != "SLATEBERG_URL"), "{report}");
}

#[test]
fn serve_rejects_what_config_check_rejects_in_the_same_words() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let minio = format!("{MINIO}aws_endpoint = \"http://minio:9000\"\n");
    for text in [
        "[catalog]\ncommit_deadline_ms = 0\n[log]\nlevel = \"warning\"\n",
        "[server.management]\nlisten = \"127.0.0.1:8181\"\n",
        "[authn.issuers.a]\nissuer = \"http://id.example.com\"\n",
        minio.as_str(),
    ] {
        fs::write(directory.path().join("s.toml"), text).expect("a written file");
        let check =
            output_text(&run(directory.path(), &[], &["config", "check", "--config", "s.toml"]));
        let served = run(directory.path(), &[], &["serve", "--config", "s.toml"]);
        assert_eq!(served.status.code(), Some(78), "{served:?}");
        let stderr = String::from_utf8(served.stderr).expect("text");
        assert!(stderr.contains(&check), "{stderr}\ninstead of\n{check}");
    }
    assert!(!Path::new(directory.path()).join("slateberg-data").exists(), "nothing is created");
}
