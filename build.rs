//! Passes the commit of a release build to `slateberg --version`.

#![allow(clippy::print_stdout, reason = "cargo reads standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SLATEBERG_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=SLATEBERG_COMMIT={}", commit());
}

/// Returns the commit that `SLATEBERG_COMMIT` names, or otherwise the commit of the checkout. Only
/// release builds ask git, because a development build would be rebuilt after each commit.
fn commit() -> String {
    if let Some(commit) = std::env::var_os("SLATEBERG_COMMIT") {
        return commit.to_string_lossy().into_owned();
    }
    if std::env::var_os("PROFILE").is_none_or(|profile| profile != "release") {
        return "development build".to_owned();
    }
    // A source archive has no .git. If it was unpacked inside a repository, git would return the
    // commit of that repository.
    if !Path::new(".git").exists() {
        return "unknown commit".to_owned();
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]);
        // If the file were missing, Cargo would run this script in every build.
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown commit".to_owned())
}

/// Returns the output of git, if git succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
