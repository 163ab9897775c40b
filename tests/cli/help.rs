//! Help, completions, man pages, aliases and the version.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{output_text, slateberg};

fn run(arguments: &[&str]) -> String {
    output_text(slateberg(Path::new("."), arguments).output().expect("the program runs"))
}

/// Returns the subcommands in a short help.
fn subcommands(help: &str) -> Vec<&str> {
    let names = help.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        (line.as_bytes()[2].is_ascii_lowercase() && name != "help").then_some(name)
    });
    names.collect()
}

/// Calls `visit` with the path of each subcommand, parents before children.
fn walk(path: &[&str], visit: &mut impl FnMut(&[&str], bool)) {
    let short = run(&[path, &["-h"]].concat());
    let below = subcommands(&short);
    visit(path, below.is_empty());
    for name in below {
        walk(&[path, &[name]].concat(), visit);
    }
}

#[test]
fn every_help_is_as_in_the_snapshot() {
    let mut text = String::new();
    walk(&[], &mut |path, _| {
        let help = run(&[path, &["--help"]].concat());
        let heading = [&["slateberg"], path].concat().join(" ");
        text += &format!("===== {heading} --help\n\n{}\n\n", help.trim_end());
    });
    insta::assert_snapshot!(text);
}

#[test]
fn every_subcommand_has_examples_in_its_long_help() {
    walk(&[], &mut |path, is_leaf| {
        let help = run(&[path, &["--help"]].concat());
        assert!(!is_leaf || help.contains("Examples:\n  "), "{path:?}: {help}");
    });
}

#[test]
fn own_options_of_a_subcommand_precede_shared_ones() {
    let help = run(&["key", "create", "-h"]);
    let at = |part: &str| help.find(part).unwrap_or_else(|| panic!("no {part} in {help}"));
    assert!(at("--role") < at("Connection options:"));
    assert!(at("Connection options:") < at("--url") && at("--url") < at("Global options:"));
    assert!(at("Global options:") < at("--output"));
}

#[test]
fn ls_rm_and_delete_are_aliases() {
    for (alias, name) in [
        (["key", "ls"], ["key", "list"]),
        (["key", "rm"], ["key", "revoke"]),
        (["key", "delete"], ["key", "revoke"]),
        (["warehouse", "ls"], ["warehouse", "list"]),
        (["warehouse", "rm"], ["warehouse", "delete"]),
        (["job", "ls"], ["job", "list"]),
        (["checkpoint", "ls"], ["checkpoint", "list"]),
        (["checkpoint", "rm"], ["checkpoint", "delete"]),
        (["policy", "ls"], ["policy", "list"]),
        (["policy", "rm"], ["policy", "delete"]),
    ] {
        assert_eq!(run(&[&alias[..], &["-h"]].concat()), run(&[&name[..], &["-h"]].concat()));
    }
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]);
        assert!(script.contains("remove-orphans"), "{shell}: {script}");
    }
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("slateberg.bash");
    fs::write(&file, run(&["completions", "bash"])).expect("it is written");
    assert!(Command::new("bash").arg("-n").arg(file).status().expect("bash runs").success());
}

#[test]
fn man_pages_are_written_for_every_subcommand() {
    let directory = tempfile::tempdir().expect("there is room");
    let out = directory.path().join("man1");
    output_text(slateberg(directory.path(), &["man", "--out", "man1"]).output().expect("it runs"));
    walk(&[], &mut |path, _| {
        let page = out.join(format!("{}.1", [&["slateberg"], path].concat().join("-")));
        let text = fs::read_to_string(&page);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH NAME"), "{text}");
    });
}

#[test]
fn the_long_version_names_the_build_and_the_store_format() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(run(&["-V"]), format!("slateberg {version}\n"));
    let long = run(&["--version"]);
    assert!(long.starts_with(&format!("slateberg {version} (")), "{long}");
    assert!(long.lines().nth(1).is_some_and(|line| line.starts_with("store format ")), "{long}");
}
