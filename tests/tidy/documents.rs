//! Names in `docs/architecture.md`: modules, files, types, functions and tests exist.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;

use super::{RANKS, crate_names, files_below, root, sources};

fn architecture() -> String {
    fs::read_to_string(root().join("docs/architecture.md")).expect("the document can be read")
}

#[test]
fn architecture_names_every_module() {
    let document = architecture();
    for name in RANKS.into_iter().map(|(module, _)| module.to_owned()).chain(crate_names()) {
        assert!(document.contains(&format!("`{name}`")), "docs/architecture.md: {name} is missing");
    }
}

#[test]
fn names_in_the_architecture_exist() {
    let (names, document) = (Names::new(), architecture());
    let missing: Vec<_> =
        code_spans(&document).into_iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "docs/architecture.md: {missing:#?} do not exist");
}

#[test]
fn missing_file_module_or_name_is_found() {
    let names = Names::new();
    for existing in [
        "tests/tidy.rs",
        "tabular/mod.rs",
        "policies/",
        "store::txn",
        "Core::mutate",
        "RequestRecords",
        "wal",
    ] {
        assert!(names.contains(existing), "{existing}");
    }
    for missing in [
        "tests/untidy.rs",
        "policies/mod.txt",
        "missing_directory/",
        "store::no_such_module",
        "NoSuchType",
    ] {
        assert!(!names.contains(missing), "{missing}");
    }
    assert_eq!(code_spans("`a` b `c::d`\n```\n`e`\n```\n`f`"), ["a", "c::d", "f"]);
}

/// An edge that other edges imply is omitted, so there is exactly one correct diagram.
#[test]
fn diagram_of_the_architecture_has_the_dependencies_of_the_code() {
    let used = dependencies();
    let implied = |from: &str, to: &str| {
        used[from].iter().any(|between| between != to && reaches(&used, between, to))
    };
    let mut expected = BTreeSet::new();
    for (from, all) in &used {
        let direct = all.iter().filter(|to| !implied(from, to));
        expected.extend(direct.map(|to| (from.clone(), to.clone())));
    }
    assert_eq!(drawn(&architecture()), expected);
}

#[test]
fn arrows_of_a_diagram_are_read() {
    let diagram = "```mermaid\nflowchart TD\n    a --> b & c\n    b --> c\n    a\n```";
    let edges = [("a", "b"), ("a", "c"), ("b", "c")].map(|(from, to)| (from.into(), to.into()));
    assert_eq!(drawn(diagram), BTreeSet::from(edges));
}

/// Returns the edges of the diagram in a document.
fn drawn(document: &str) -> BTreeSet<(String, String)> {
    let mut edges = BTreeSet::new();
    for line in document.lines() {
        if let Some((from, to)) = line.trim().split_once(" --> ") {
            let from = from.to_owned();
            edges.extend(to.split(" & ").map(|to| (from.clone(), to.to_owned())));
        }
    }
    edges
}

/// Returns the crates and modules of the server that each crate and module uses. Modules are part
/// of one package, so their dependencies are the names in their code.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut used = BTreeMap::new();
    for name in crate_names() {
        let path = root().join(format!("crates/{name}/Cargo.toml"));
        let text = fs::read_to_string(path).expect("the manifest can be read");
        let manifest: toml::Table = text.parse().expect("it is TOML");
        let named = manifest.get("dependencies").and_then(toml::Value::as_table);
        let named = named.into_iter().flat_map(toml::Table::keys);
        let ours = named.filter_map(|key| key.strip_prefix("slateberg-")).map(str::to_owned);
        used.insert(name, ours.collect());
    }
    for (module, _) in RANKS {
        let mut of_module = BTreeSet::new();
        for file in sources().iter().filter(|file| file.name.starts_with(&format!("{module}/"))) {
            for name in crate_names() {
                if file.text.contains(&format!("slateberg_{name}")) {
                    of_module.insert(name);
                }
            }
            for (other, _) in RANKS.into_iter().filter(|(other, _)| *other != module) {
                if file.text.contains(&format!("crate::{other}")) {
                    of_module.insert(other.to_owned());
                }
            }
        }
        used.insert(module.to_owned(), of_module);
    }
    used
}

/// Whether `from` uses `to`, directly or not.
fn reaches(used: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    used.get(from)
        .is_some_and(|all| all.contains(to) || all.iter().any(|next| reaches(used, next, to)))
}

/// Returns the text of each code span in a Markdown document.
fn code_spans(document: &str) -> Vec<&str> {
    let outside = document.split("```").step_by(2);
    outside.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// The names that a document may contain.
struct Names {
    /// Paths of files and directories below the checkout, which end in a slash.
    paths: Vec<String>,
    /// Identifiers in source files, and names of files without `.rs`.
    words: HashSet<String>,
}

impl Names {
    fn new() -> Self {
        let tests =
            files_below("tests").into_iter().map(|file| (format!("tests/{}", file.name), file));
        let mut files: Vec<_> = tests.collect();
        files.extend(sources().into_iter().map(|file| {
            let (top, rest) = file.name.split_once('/').unwrap_or(("", &file.name));
            let is_crate = crate_names().iter().any(|name| name == top);
            let path = if is_crate {
                format!("crates/{top}/src/{rest}")
            } else {
                format!("src/{}", file.name)
            };
            (path, file)
        }));
        let (mut paths, mut words) = (HashSet::new(), HashSet::new());
        // This file contains names that do not exist.
        files.retain(|(path, _)| path != "tests/tidy/documents.rs");
        for (path, file) in files {
            let mut parts: Vec<_> = path.split('/').collect();
            words.extend(parts.iter().map(|part| part.trim_end_matches(".rs").to_owned()));
            while parts.pop().is_some() && !parts.is_empty() {
                paths.insert(format!("{}/", parts.join("/")));
            }
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            // Names in comments do not count.
            let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
            words.extend(code.flat_map(|line| line.split(|c| !is_word(c))).map(str::to_owned));
            paths.insert(path);
        }
        Self { paths: paths.into_iter().collect(), words }
    }

    /// Whether a file, directory, module or identifier has this name. A path may omit its beginning.
    fn contains(&self, name: &str) -> bool {
        let name = name.split(['(', '<']).next().unwrap_or_default();
        if name.contains('/') || name.ends_with(".rs") {
            let tail = format!("/{}", name.trim_end_matches('/'));
            let is_path =
                |path: &String| format!("/{}", path.trim_end_matches('/')).ends_with(&tail);
            return self.paths.iter().any(is_path) || root().join(name).exists();
        }
        // Headers, commands and other text.
        let is_identifier = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.');
        !name.chars().all(is_identifier)
            || name
                .split("::")
                .flat_map(|part| part.split('.'))
                .all(|part| self.words.contains(part))
    }
}
