//! `slateberg job` against a running server.

use std::path::Path;

use serde_json::{Value, json};

use crate::authn_cli::{Server, output_text};
use crate::support::table::{create_table, set_property};

/// Number of commits of the purged table. At one deletion per second, the purge of their metadata
/// files takes long enough to observe the running job.
const COMMITS: usize = 40;

async fn ask(server: &Server, key: &str, path: &str, body: Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.post(format!("{}{path}", server.uri)).bearer_auth(key).json(&body);
    let response = request.send().await.expect("it answers");
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.expect("JSON")
}

/// Splits lines into words.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Returns the value in the line with this name.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_listed_shown_started_and_cancelled() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = &directory.path().canonicalize().expect("it is there");
    let settings = "[catalog]\nfile_deletions_per_second_max = 1\norphan_age_seconds_min = 0\n";
    std::fs::write(at.join("settings.toml"), settings).expect("it can be written");
    let server = Server::start(at, &["--config", "settings.toml"]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, &[&["job"], arguments].concat());
    assert_eq!(
        rows(&output_text(run(&["list"]))),
        [["ID", "KIND", "STATE", "FILES", "ON", "LAST", "ERROR"]]
    );

    ask(&server, &admin, "/v1/namespaces", json!({ "namespace": ["ns"] })).await;
    let table = "/v1/namespaces/ns/tables/t";
    let created = ask(&server, &admin, "/v1/namespaces/ns/tables", create_table("t")).await;
    for commit in 0..COMMITS {
        let updates = [set_property("commit", &commit.to_string())];
        ask(&server, &admin, table, json!({ "requirements": [], "updates": updates })).await;
    }
    let location = created["metadata"]["location"].as_str().expect("a text");
    let place = Path::new(location.strip_prefix("file://").expect("it is in a directory"));
    std::fs::write(place.join("stranger"), "12345").expect("there is room");

    // The search is repeated without `--delete` until the file counts as old, because ages are
    // measured in whole seconds.
    let since = std::time::Instant::now();
    let started = loop {
        let arguments = ["remove-orphans", "table:default/ns/t", "--older-than-seconds", "0"];
        let started = output_text(run(&[&arguments[..], &["--output", "json"]].concat()));
        let started: Value = serde_json::from_str(&started).expect("JSON");
        let id = started["id"].as_str().expect("an id").to_owned();
        let output = loop {
            let output = output_text(run(&["show", &id]));
            if line(&output, "state") != "waiting" && line(&output, "state") != "running" {
                break output;
            }
        };
        assert!(since.elapsed().as_secs() < 60, "{output}");
        if line(&output, "files") == "1/1" {
            break (id, output);
        }
    };
    let (id, output) = started;
    assert_eq!(line(&output, "kind"), "orphan-removal (dry run)");
    assert_eq!((line(&output, "state"), line(&output, "bytes")), ("done", "5"));
    assert_eq!(line(&output, "found"), format!("{location}/stranger"));
    assert!(place.join("stranger").exists());

    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let purge = client.delete(format!("{}{table}?purgeRequested=true", server.uri));
    let purged = purge.bearer_auth(&admin).send().await.expect("it answers");
    assert_eq!(purged.status(), 204);
    let listed = output_text(run(&["list"]));
    let listed = rows(&listed);
    assert_eq!(listed[1][1], "purge", "{listed:?}");
    assert!(["waiting", "running"].contains(&listed[1][2]), "{listed:?}");
    assert_eq!(listed[1].last(), Some(&"table:default/ns/t"));
    assert_eq!(listed.last().expect("a line")[0], id);
    let cancelled = output_text(run(&["cancel", listed[1][0]]));
    assert!(
        cancelled.starts_with(&format!("cancelled job {} after ", listed[1][0])),
        "{cancelled}"
    );
    let output: Value =
        serde_json::from_str(&output_text(run(&["show", listed[1][0], "--output", "json"])))
            .expect("JSON");
    assert_eq!(output["state"], "cancelled");
    let again = run(&["cancel", listed[1][0]]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("ConflictException"));
    let process_output = run(&["remove-orphans", "ns.t"]);
    assert!(String::from_utf8_lossy(&process_output.stderr).contains("not a "));
}
