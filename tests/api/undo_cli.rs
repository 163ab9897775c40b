//! `slateberg undrop`, `protect`, `history` and `rollback` against a running server.

use std::path::Path;

use serde_json::{Value, json};

use crate::authn_cli::{Server, output_text, send};
use crate::support::table::{append, create_table};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_undone_on_the_command_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, arguments);
    let post = |path: &'static str, body| send(&server, &admin, reqwest::Method::POST, path, body);
    let table = "/v1/namespaces/ns/tables/t";
    post("/v1/namespaces", json!({ "namespace": ["ns"] })).await;
    post("/v1/namespaces/ns/tables", create_table("t")).await;
    for snapshot in 1..=3 {
        let mut updates = append(snapshot, (snapshot > 1).then_some(snapshot - 1), snapshot);
        let list = format!("file://{}/lists/{snapshot}.avro", at.display());
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        post(table, json!({ "requirements": [], "updates": updates })).await;
    }

    let rolled = output_text(run(&["rollback", "default/ns/t", "--to", "2", "--dry-run"]));
    assert!(rolled.contains("would be rolled back to snapshot 2"), "{rolled}");
    let rolled = output_text(run(&["rollback", "default/ns/t", "--to", "2"]));
    assert!(rolled.contains("was rolled back to snapshot 2"), "{rolled}");
    let time = ["rollback", "table:default/ns/t", "--to", "2023-11-14T22:13:20.001Z"];
    assert!(output_text(run(&time)).contains("was rolled back to snapshot 1"));
    assert!(output_text(run(&time)).contains("is already at snapshot 1"));
    for (to, reason) in [
        ("3", "is not in the history of branch 'main'"),
        ("9", "has no snapshot 9"),
        ("2000-01-01T00:00:00Z", "has no snapshot at that time"),
    ] {
        let failed = run(&["rollback", "default/ns/t", "--to", to]);
        assert_eq!(failed.status.code(), Some(1));
        let message = String::from_utf8_lossy(&failed.stderr);
        assert!(message.contains(reason), "{message}");
    }

    assert_eq!(
        output_text(run(&["protect", "table:default/ns/t"])),
        "protected table:default/ns/t\n"
    );
    assert!(output_text(run(&["protected"])).contains("table:default/ns/t"));
    output_text(run(&["unprotect", "table:default/ns/t"]));
    send(&server, &admin, reqwest::Method::DELETE, table, Value::Null).await;
    assert!(output_text(run(&["dropped", "list"])).contains("table:default/ns/t"));
    let undrop = ["undrop", "table:default/ns/t", "--as", "table:default/ns/u"];
    assert_eq!(output_text(run(&undrop)), "restored table:default/ns/u\n");

    let history = output_text(run(&["history", "table:default/ns/u", "--limit", "2"]));
    let actions: Vec<_> =
        history.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(actions, ["ACTION", "undrop_table", "drop_table", "add"]);
}
