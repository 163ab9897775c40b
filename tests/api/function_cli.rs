//! `slateberg function` against a running server.

use std::path::Path;

use serde_json::{Value, json};

use crate::authn_cli::{Server, output_text, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_managed_on_the_command_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, arguments);
    let namespace = json!({ "namespace": ["ns"] });
    send(&server, &admin, reqwest::Method::POST, "/v1/namespaces", namespace).await;

    let one = ["--dialect", "spark", "--sql", "x + 1", "--returns", "int", "--parameter", "x:int"];
    let created = output_text(run(&[&["function", "create", "default/ns/f"], &one[..]].concat()));
    assert_eq!(created, "created function:default/ns/f, version 1\n");
    let listed = output_text(run(&["function", "list", "default/ns"]));
    assert!(listed.contains("default/ns/f"), "{listed}");
    let shown = output_text(run(&["function", "show", "default/ns/f"]));
    assert!(shown.contains("x int") && shown.contains("x + 1"), "{shown}");

    let file = at.join("f.json");
    let definition = json!({ "definitions": [{
        "parameters": [], "return-type": "string", "representations": [
            { "dialect": "trino", "sql": "'a'" }, { "dialect": "spark", "sql": "'b'" },
        ],
    }] });
    std::fs::write(&file, definition.to_string()).expect("it is written");
    let file = file.to_str().expect("the path is text");
    let replaced =
        output_text(run(&["function", "create", "default/ns/f", "--file", file, "--replace"]));
    assert_eq!(replaced, "replaced function:default/ns/f, version 2\n");
    let shown = output_text(run(&["function", "show", "function:default/ns/f"]));
    assert!(shown.contains("trino") && shown.contains("'b'"), "{shown}");

    let dropped = output_text(run(&["function", "drop", "default/ns/f"]));
    assert_eq!(dropped, "dropped function:default/ns/f\n");
    let listed = output_text(run(&["function", "list", "default/ns", "--output", "json"]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed, json!({ "functions": [] }));
    let missing = run(&["function", "drop", "default/ns/f"]);
    assert_eq!(missing.status.code(), Some(1));
}
