//! Errors name the next step, as text or JSON, and each class of errors has its own exit code.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::program::{Server, output_text, slateberg};

/// Returns the exit code and standard error.
fn failure(mut command: Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().expect("the program runs");
    (status.code().expect("it exits"), String::from_utf8(stderr).expect("text"))
}

/// Returns the error object on standard error, which contains nothing else.
fn json_error(mut command: Command) -> Value {
    command.args(["--output", "json"]);
    let (code, text) = failure(command);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
    assert_eq!(value["error"]["exit-code"], code, "{value}");
    value["error"].clone()
}

/// Returns an address without a listener.
fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    format!("http://{}", listener.local_addr().expect("an address"))
}

fn with_url(directory: &Path, url: &str, arguments: &[&str]) -> Command {
    let mut command = slateberg(directory, arguments);
    command.env("SLATEBERG_URL", url);
    command
}

#[test]
fn refused_connection_prints_the_address_and_how_to_set_it() {
    let directory = tempfile::tempdir().expect("there is room");
    let url = closed_address();
    let (code, text) = failure(with_url(directory.path(), &url, &["key", "list"]));
    let expected = format!(
        "slateberg: cannot connect to {url}: connection refused. Is the server running? Set the address with \
         --url or SLATEBERG_URL\n"
    );
    assert_eq!((code, text), (69, expected));
    let error = json_error(with_url(directory.path(), &url, &["key", "list"]));
    assert_eq!(error["code"], "unreachable");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("connection refused")));
    let migrate = ["migrate", "--from", "locations", "--source", "nothing"];
    assert_eq!(failure(with_url(directory.path(), &url, &migrate)).0, 69);
}

#[test]
fn wrong_url_of_a_message_broker_is_an_error_of_the_command_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let run =
        |arguments: &[&str]| failure(with_url(directory.path(), &closed_address(), arguments));
    for (url, part) in [
        ("amqp://a/b", "expected nats://HOST:PORT/SUBJECT"),
        ("nats://a/b.>", "'b.>' is not a subject of NATS"),
        ("kafka://a/b/c", "'b/c' is not a topic of Kafka"),
        ("kafka://user:password@a/b", "set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD instead"),
    ] {
        let (code, text) = run(&["watch", "--to", url, "--name", "c"]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(part), "{text}");
    }
    let (code, text) = run(&["watch", "--to", "nats://a/b"]);
    assert!(code == 2 && text.contains("--name <NAME>"), "{text}");
    assert_eq!(run(&["watch", "--to", "nats://a/b", "--name", "c"]).0, 69, "no server");
}

#[cfg(not(feature = "sql-migration"))]
#[test]
fn a_migration_from_sql_without_sqlite_in_the_build_names_the_feature_that_adds_it() {
    let directory = tempfile::tempdir().expect("there is room");
    let server = Server::start(directory.path(), &["--insecure-no-auth"]);
    let migrate = ["migrate", "--from", "sql", "--source", "catalog.db"];
    let (code, text) = failure(with_url(directory.path(), &server.uri, &migrate));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("cargo install --locked --path . --features sql-migration"), "{text}");
}

#[cfg(feature = "sql-migration")]
#[test]
fn a_migration_from_sql_names_a_database_that_does_not_exist() {
    let directory = tempfile::tempdir().expect("there is room");
    let server = Server::start(directory.path(), &["--insecure-no-auth"]);
    let migrate = ["migrate", "--from", "sql", "--source", "catalog.db"];
    let (code, text) = failure(with_url(directory.path(), &server.uri, &migrate));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("slateberg: catalog.db: unable to open database file"), "{text}");
}

#[test]
fn the_last_line_of_a_migration_says_that_part_of_the_source_could_not_be_read() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = &directory.path().canonicalize().expect("it exists");
    let server = Server::start(at, &["--insecure-no-auth"]);
    let source = at.join("lake");
    // Metadata at the root of the source belongs to no table.
    fs::create_dir_all(source.join("metadata")).expect("there is room");
    fs::write(source.join("metadata/v1.metadata.json"), "{}").expect("there is room");
    let source = format!("file://{}", source.display());
    let migrate = ["migrate", "--from", "locations", "--source", &source];
    let (code, text) = failure(with_url(at, &server.uri, &migrate));
    assert_eq!(code, 1, "{text}");
    let expected = "0 of 0 migrated, 0 failed, and part of the source could not be read\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_address_without_a_scheme_is_rejected_with_an_example() {
    let directory = tempfile::tempdir().expect("there is room");
    let command = with_url(directory.path(), "127.0.0.1:18181", &["key", "list"]);
    let (code, text) = failure(command);
    assert_eq!(code, 2);
    assert!(text.contains("SLATEBERG_URL must begin with http:// or https://"), "{text}");
    assert!(text.contains("Did you mean http://127.0.0.1:18181?"), "{text}");
    let (code, text) = failure(slateberg(directory.path(), &["key", "list", "--url", "ftp://x"]));
    assert_eq!(code, 2);
    assert!(text.contains("--url must begin with http:// or https://"), "{text}");
}

#[test]
fn a_missing_or_wrong_key_names_the_variable_to_set() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    let (code, text) = failure(with_url(at, &server.uri, &["key", "list"]));
    assert_eq!(code, 77, "{text}");
    assert!(text.contains("set SLATEBERG_API_KEY or --api-key"), "{text}");
    let wrong = ["key", "list", "--api-key", "sb_wrong"];
    let (code, text) = failure(with_url(at, &server.uri, &wrong));
    assert_eq!(code, 77, "{text}");
    assert!(text.contains("rejected the API key or token of --api-key"), "{text}");
    let error = json_error(with_url(at, &server.uri, &["key", "list"]));
    assert_eq!(error["code"], "denied");

    let created = ["key", "create", "nobody", "--output", "json"];
    let created: Value =
        serde_json::from_str(&output_text(server.run(at, &server.keys()[0], &created)))
            .expect("JSON");
    let key = created["key"].as_str().expect("a key");
    let mut command = with_url(at, &server.uri, &["key", "list"]);
    command.env("SLATEBERG_API_KEY", key);
    let (code, text) = failure(command);
    assert_eq!(code, 77, "{text}");
    assert!(text.contains("of SLATEBERG_API_KEY lacks this permission"), "{text}");
}

#[test]
fn usage_error_is_json_with_json_output() {
    let directory = tempfile::tempdir().expect("there is room");
    let error = json_error(slateberg(directory.path(), &["key", "list", "--nothing"]));
    assert_eq!((error["code"].as_str(), error["exit-code"].as_i64()), (Some("usage"), Some(2)));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("--nothing")), "{error}");
    let (code, text) = failure(slateberg(directory.path(), &["key", "list", "--nothing"]));
    assert_eq!(code, 2);
    assert!(text.starts_with("error: "), "{text}");
}

#[test]
fn catalog_in_use_and_missing_catalog_have_their_own_exit_codes() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    for arguments in [
        &["fsck", "--data-dir", "data"][..],
        &["export", "-", "--data-dir", "data"],
        &["restore", "--to", "x", "--yes", "--data-dir", "data"],
        &["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"],
    ] {
        let error = json_error(slateberg(at, arguments));
        assert!(
            matches!(error["code"].as_str(), Some("in-use" | "failed")),
            "{arguments:?}: {error}"
        );
    }
    let (code, text) = failure(slateberg(at, &["fsck", "--data-dir", "data"]));
    assert_eq!(code, 75, "{text}");
    let port = server.uri.strip_prefix("http://").expect("an address");
    let taken = ["serve", "--data-dir", "other", "--listen", port];
    assert_eq!(failure(slateberg(at, &taken)).0, 75);
    drop(server);

    for command in [&["fsck"][..], &["export", "-"], &["store", "check"]] {
        let (code, text) = failure(slateberg(at, command));
        assert_eq!(code, 78, "{command:?}: {text}");
        assert!(text.contains("no catalog in slateberg-data: set --data-dir"), "{text}");
        assert!(!at.join("slateberg-data").exists(), "{command:?} creates nothing");
    }
}

#[test]
fn invalid_settings_and_damaged_lines_have_their_own_exit_codes() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    fs::write(at.join("s.toml"), "[server]\nlisen = 1\n").expect("it is written");
    for command in [&["serve"][..], &["fsck"], &["config", "check"], &["config", "show"]] {
        let error = json_error(slateberg(at, &[command, &["--config", "s.toml"]].concat()));
        assert_eq!(error["code"], "settings", "{command:?}: {error}");
    }
    fs::write(at.join("lines.jsonl"), "no JSON\n").expect("it is written");
    let error = json_error(slateberg(at, &["import", "lines.jsonl", "--data-dir", "data"]));
    assert_eq!((error["code"].as_str(), error["exit-code"].as_i64()), (Some("damaged"), Some(65)));
}

#[test]
fn results_of_offline_commands_are_json_with_json_output() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    output_text(server.run(at, &server.keys()[0], &["checkpoint", "create", "mine"]));
    server.stop();
    let run = |arguments: &[&str]| -> Value {
        let more = ["--data-dir", "data", "--output", "json"];
        let output = slateberg(at, &[arguments, &more].concat()).output().expect("it runs");
        serde_json::from_str(&output_text(output)).expect("standard output is one JSON document")
    };
    let checked = run(&["fsck"]);
    assert_eq!(
        (checked["broken"].as_array().map(Vec::len), &checked["tables"]),
        (Some(0), &0.into())
    );
    assert_eq!(run(&["export", "all.jsonl"])["exported"]["warehouses"], 1);
    let url = format!("file://{}", at.join("scratch").display());
    let store = run(&["store", "check", &url, "--rounds", "2", "--writers", "2"]);
    assert_eq!(
        (&store["stores"][0]["passed"], &store["stores"][0]["url"]),
        (&true.into(), &url.into())
    );
    assert_eq!(run(&["restore", "--to", "mine"])["done"], false);
}
