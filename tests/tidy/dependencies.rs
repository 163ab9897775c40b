//! Dependencies: each has a reason in the manifest that sets its version.

use std::fs;

use super::{crate_names, root};

#[test]
fn every_dependency_with_a_version_has_a_reason() {
    let crates = crate_names().into_iter().map(|name| format!("crates/{name}/Cargo.toml"));
    let mut broken = Vec::new();
    for path in crates.chain(["Cargo.toml", "benches/load/Cargo.toml"].map(str::to_owned)) {
        let manifest = fs::read_to_string(root().join(&path)).expect("the manifest can be read");
        broken.extend(without_reason(&manifest).into_iter().map(|name| format!("{path}: {name}")));
    }
    assert!(broken.is_empty(), "no comment in the line above: {broken:#?}");
}

#[test]
fn dependency_without_a_reason_is_found() {
    let manifest = "[dependencies]\n# Errors.\na = \"1\"\nb = { version = \"2\" }\nc.workspace = true\n\
                    d = { path = \"d\" }\n\n[dev-dependencies]\ne = \"1\"\n\n[features]\nf = \"\"";
    assert_eq!(without_reason(manifest), ["b", "e"]);
}

/// Returns the dependencies whose version is set without a comment in the line above.
fn without_reason(manifest: &str) -> Vec<String> {
    let (mut in_dependencies, mut above) = (false, "");
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
        }
        let dependency = line.split_once(" = ").filter(|_| in_dependencies);
        if let Some((name, value)) = dependency
            && (value.starts_with('"') || value.contains("version = "))
            && !above.starts_with('#')
        {
            found.push(name.to_owned());
        }
        above = line;
    }
    found
}
