//! `slateberg warehouse` against a running server.

use serde_json::Value;

use crate::authn_cli::{Server, output_text};

#[test]
fn warehouses_are_created_listed_shown_changed_and_deleted() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = &directory.path().canonicalize().expect("it is there");
    let server = Server::start(at, &[]);
    let admin = server.keys()[0].clone();
    let run = |arguments: &[&str]| server.run(at, &admin, &[&["warehouse"], arguments].concat());
    let location = format!("file://{}/data/warehouse/lake", at.display());
    let text = output_text(run(&[
        "create",
        "lake",
        "--location",
        &location,
        "--client-default",
        "a=b",
        "--client-override",
        "c=d=e",
    ]));
    assert_eq!(text, format!("created warehouse lake at {location}\n"));
    let listed = output_text(run(&["list"]));
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SOURCE", "STATUS", "LOCATION"]);
    assert_eq!(rows[1][..4], ["default", "(default)", "configuration", "open"]);
    assert_eq!(rows[2], ["lake", "api", "open", &location]);

    let property = "slateberg.maintenance.expire-snapshots=true";
    let options = ["--client-default", "a=2", "--maintenance", property];
    let changed = output_text(run(&[&["update", "lake"][..], &options].concat()));
    assert_eq!(changed, "warehouse lake is at version 2\n");
    let output = output_text(run(&["show", "lake"]));
    for line in [
        "source            api",
        "client-defaults   a=2",
        "client-overrides  c=d=e",
        "maintenance       slateberg.maintenance.expire-snapshots=true",
        "version           2",
    ] {
        assert!(output.contains(&format!("{line}\n")), "{output}");
    }
    let json: Value =
        serde_json::from_str(&output_text(run(&["show", "lake", "--output", "json"])))
            .expect("JSON");
    assert_eq!(json["storage"]["location"], location.as_str());

    let changed = output_text(run(&["update", "lake", "--no-maintenance"]));
    assert_eq!(changed, "warehouse lake is at version 3\n");
    assert!(!output_text(run(&["show", "lake"])).contains("slateberg.maintenance"));

    let wrong = run(&["create", "etc", "--location", "file:///etc"]);
    assert_eq!(wrong.status.code(), Some(1));
    let error_output = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error_output.contains("Cannot use location 'file:///etc'"), "{error_output}");
    let secret = run(&[
        "create",
        "s",
        "--location",
        "s3://bucket/s",
        "--option",
        "aws_secret_access_key=hunter2",
    ]);
    let error_output = String::from_utf8_lossy(&secret.stderr).into_owned();
    assert!(
        error_output.contains("[credentials.NAME]") && !error_output.contains("hunter2"),
        "{error_output}"
    );
    assert_eq!(run(&["create", "s", "--location", "x", "--option", "y"]).status.code(), Some(2));
    let unknown = run(&["update", "lake", "--delegation", "vended"]);
    assert_eq!(unknown.status.code(), Some(2));
    let error_output = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        error_output.contains("[possible values: vended-credentials, remote-signing]"),
        "{error_output}"
    );

    assert_eq!(output_text(run(&["delete", "lake"])), "deleted warehouse lake\n");
    let process_output = run(&["show", "lake"]);
    let error_output = String::from_utf8_lossy(&process_output.stderr).into_owned();
    assert!(error_output.contains("Warehouse does not exist: lake"), "{error_output}");
}
