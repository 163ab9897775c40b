//! `slateberg job` against a running server.

use std::path::Path;

use serde_json::{Value, json};

use crate::authn_cli::{Server, said};
use crate::support::table::{create_table, set_property};

/// Number of commits of the purged table: including the first file, and at one deletion per second,
/// enough to observe the running job.
const COMMITS: usize = 40;

async fn ask(server: &Server, key: &str, path: &str, body: Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.post(format!("{}{path}", server.uri)).bearer_auth(key).json(&body);
    let answer = request.send().await.expect("it answers");
    assert_eq!(answer.status(), 200, "{path}");
    answer.json().await.expect("JSON")
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
        rows(&said(run(&["list"]))),
        [["ID", "KIND", "STATE", "FILES", "ON", "LAST", "ERROR"]]
    );

    ask(&server, &admin, "/v1/namespaces", json!({ "namespace": ["ns"] })).await;
    let table = "/v1/namespaces/ns/tables/t";
    let made = ask(&server, &admin, "/v1/namespaces/ns/tables", create_table("t")).await;
    for commit in 0..COMMITS {
        let updates = [set_property("commit", &commit.to_string())];
        ask(&server, &admin, table, json!({ "requirements": [], "updates": updates })).await;
    }
    let location = made["metadata"]["location"].as_str().expect("a text");
    let place = Path::new(location.strip_prefix("file://").expect("it is in a directory"));
    std::fs::write(place.join("stranger"), "12345").expect("there is room");

    // A dry run. The file's age is measured in whole seconds.
    let since = std::time::Instant::now();
    let started = loop {
        let arguments = ["remove-orphans", "table:default/ns/t", "--older-than-seconds", "0"];
        let started = said(run(&[&arguments[..], &["--output", "json"]].concat()));
        let started: Value = serde_json::from_str(&started).expect("JSON");
        let id = started["id"].as_str().expect("an id").to_owned();
        let shown = loop {
            let shown = said(run(&["show", &id]));
            if line(&shown, "state") != "waiting" && line(&shown, "state") != "running" {
                break shown;
            }
        };
        assert!(since.elapsed().as_secs() < 60, "{shown}");
        if line(&shown, "files") == "1/1" {
            break (id, shown);
        }
    };
    let (id, shown) = started;
    assert_eq!(line(&shown, "kind"), "orphan-removal (dry run)");
    assert_eq!((line(&shown, "state"), line(&shown, "bytes")), ("done", "5"));
    assert_eq!(line(&shown, "found"), format!("{location}/stranger"));
    assert!(place.join("stranger").exists());

    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let purge = client.delete(format!("{}{table}?purgeRequested=true", server.uri));
    let purged = purge.bearer_auth(&admin).send().await.expect("it answers");
    assert_eq!(purged.status(), 204);
    let listed = said(run(&["list"]));
    let listed = rows(&listed);
    assert_eq!(listed[1][1], "purge", "{listed:?}");
    assert!(["waiting", "running"].contains(&listed[1][2]), "{listed:?}");
    assert_eq!(listed[1].last(), Some(&"table:default/ns/t"));
    assert_eq!(listed.last().expect("a line")[0], id);
    let cancelled = said(run(&["cancel", listed[1][0]]));
    assert!(
        cancelled.starts_with(&format!("cancelled job {} after ", listed[1][0])),
        "{cancelled}"
    );
    let shown: Value =
        serde_json::from_str(&said(run(&["show", listed[1][0], "--output", "json"])))
            .expect("JSON");
    assert_eq!(shown["state"], "cancelled");
    let again = run(&["cancel", listed[1][0]]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("ConflictException"));
    let refused = run(&["remove-orphans", "ns.t"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not a "));
}
