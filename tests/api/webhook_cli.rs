//! `slateberg webhook` against a running server.

use std::path::Path;

use serde_json::{Value, json};

use crate::authn_cli::{Server, output_text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_managed_on_the_command_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, arguments);

    let url = "https://receiver.invalid/hook";
    let filter = ["--resource", "warehouse:default", "--type", "table", "--type", "view.created"];
    let created = output_text(run(&[&["webhook", "create", "w", url], &filter[..]].concat()));
    assert!(created.contains("secret  whsec_"), "{created}");
    let listed = output_text(run(&["webhook", "ls"]));
    assert!(
        listed.contains(url) && listed.contains("table,view.created of warehouse:default"),
        "{listed}"
    );
    let suspended = output_text(run(&["webhook", "suspend", "w", "--reason", "a test"]));
    assert!(suspended.contains("suspended") && suspended.contains("a test"), "{suspended}");
    let shown = output_text(run(&["webhook", "show", "w"]));
    assert!(shown.contains("a test") && !shown.contains("whsec_"), "{shown}");
    let tested = output_text(run(&["webhook", "test", "w"]));
    assert!(tested.starts_with("the receiver did not accept the test event: "), "{tested}");
    let rotated = output_text(run(&["webhook", "rotate", "w", "--keep-previous", "7d"]));
    assert!(rotated.contains("secret  whsec_"), "{rotated}");
    let resumed = output_text(run(&["webhook", "resume", "w", "--output", "json"]));
    let resumed: Value = serde_json::from_str(&resumed).expect("JSON");
    assert_eq!((&resumed["state"], &resumed["owner-roles"]), (&json!("active"), &json!(["admin"])));
    assert_eq!(output_text(run(&["webhook", "rm", "w"])), "deleted w\n");
    let missing = run(&["webhook", "show", "w"]);
    assert_eq!(missing.status.code(), Some(1));
    let rejected = run(&["webhook", "create", "w", "http://127.0.0.1/"]);
    assert_eq!(rejected.status.code(), Some(1));
}
