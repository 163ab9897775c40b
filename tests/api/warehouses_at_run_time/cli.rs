//! `slateberg warehouse` against a running server.

use serde_json::Value;

use crate::authn_cli::{Server, said};

#[test]
fn warehouses_are_made_listed_shown_changed_and_deleted() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, &[&["warehouse"], arguments].concat());
    let location = format!("file://{}/data/warehouse/lake", at.display());
    let made = said(run(&[
        "create",
        "lake",
        "--location",
        &location,
        "--client-default",
        "a=b",
        "--client-override",
        "c=d=e",
    ]));
    assert_eq!(made, format!("created warehouse lake at {location}\n"));
    let listed = said(run(&["list"]));
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SOURCE", "STATUS", "LOCATION"]);
    assert_eq!(rows[1][..4], ["default", "(default)", "configuration", "open"]);
    assert_eq!(rows[2], ["lake", "api", "open", &location]);

    let changed = said(run(&["update", "lake", "--client-default", "a=2"]));
    assert_eq!(changed, "warehouse lake is at version 2\n");
    let shown = said(run(&["show", "lake"]));
    for line in [
        "source            api",
        "client-defaults   a=2",
        "client-overrides  c=d=e",
        "version           2",
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{shown}");
    }
    let json: Value =
        serde_json::from_str(&said(run(&["show", "lake", "--output", "json"]))).expect("JSON");
    assert_eq!(json["storage"]["location"], location.as_str());

    let wrong = run(&["create", "etc", "--location", "file:///etc"]);
    assert_eq!(wrong.status.code(), Some(1));
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(told.contains("Cannot use location 'file:///etc'"), "{told}");
    let secret = run(&[
        "create",
        "s",
        "--location",
        "s3://bucket/s",
        "--option",
        "aws_secret_access_key=hunter2",
    ]);
    let told = String::from_utf8_lossy(&secret.stderr).into_owned();
    assert!(told.contains("[credentials.NAME]") && !told.contains("hunter2"), "{told}");
    assert_eq!(run(&["create", "s", "--location", "x", "--option", "y"]).status.code(), Some(2));
    let unknown = run(&["update", "lake", "--delegation", "vended"]);
    assert_eq!(unknown.status.code(), Some(2));
    let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(told.contains("[possible values: vended-credentials, remote-signing]"), "{told}");

    assert_eq!(said(run(&["delete", "lake"])), "deleted warehouse lake\n");
    let gone = run(&["show", "lake"]);
    let told = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(told.contains("Warehouse does not exist: lake"), "{told}");
}
