//! `slateberg label` against a running server.

use std::path::Path;

use serde_json::json;

use crate::authn_cli::{Server, output_text, send};
use crate::support::table::create_table;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_managed_on_the_command_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, arguments);
    for (path, body) in [
        ("/v1/namespaces", json!({ "namespace": ["ns"] })),
        ("/v1/namespaces/ns/tables", create_table("t")),
    ] {
        send(&server, &admin, reqwest::Method::POST, path, body).await;
    }
    let table = "table:default/ns/t";
    let set = output_text(run(&["label", "set", table, "domain=sales", "tier=1"]));
    assert!(set.contains("domain") && set.contains("sales"), "{set}");
    output_text(run(&["label", "set", table, "--column", "data", "pii=a=b"]));
    let shown = output_text(run(&["label", "show", table]));
    assert!(shown.contains("data") && shown.contains("a=b"), "{shown}");
    output_text(run(&["label", "remove", table, "tier"]));
    let removed = output_text(run(&["label", "remove", table, "--field-id", "2", "pii"]));
    assert!(removed.contains("domain"), "{removed}");
    assert!(!removed.contains("tier") && !removed.contains("pii"), "{removed}");
    let unknown = run(&["label", "set", table, "--column", "none", "a=b"]);
    assert_eq!(unknown.status.code(), Some(1));
}
