//! Passes the commit of a release build to `slateberg --version`.

#![allow(clippy::print_stdout, reason = "cargo reads standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SLATEBERG_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=SLATEBERG_COMMIT={}", commit());
}

/// The commit that `SLATEBERG_COMMIT` names, or that of the checkout. Only release builds ask git: a development build
/// would otherwise be rebuilt after each commit.
fn commit() -> String {
    if let Some(commit) = std::env::var_os("SLATEBERG_COMMIT") {
        return commit.to_string_lossy().into_owned();
    }
    if std::env::var_os("PROFILE").is_none_or(|profile| profile != "release") {
        return "development build".to_owned();
    }
    // A source archive has no .git; a repository around it is another one.
    if !Path::new(".git").exists() {
        return "unknown commit".to_owned();
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]);
        // Cargo would run this on every build if the file were missing.
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown commit".to_owned())
}

/// The output of git, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
