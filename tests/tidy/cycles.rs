//! Import cycles between the files of a crate. A file in a cycle cannot be read independently of
//! the others.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, crate_names, files_below, is_test_file};

/// Returns the path of a module below the root of its crate, with slashes. The root is the empty
/// path.
fn module(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.to_owned() }
}

/// Returns the paths of a use-tree.
fn flatten(prefix: &str, tree: &str, into: &mut Vec<String>) {
    let Some((head, body)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        into.push(format!("{prefix}{}", path.trim()));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                flatten(&prefix, body[start..at].trim(), into);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !body[start..].trim().is_empty() {
        flatten(&prefix, body[start..].trim(), into);
    }
}

/// Returns the paths in a file: those of its use-trees, and those in its code that begin with
/// `crate` or `super`.
fn paths(file: &Source) -> Vec<String> {
    let text = file.code().collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("use ") {
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (before, after) = rest.split_at(at + "use ".len());
        code.push_str(before);
        rest = after;
        if begins && let Some((tree, behind)) = after.split_once(';') {
            flatten("", tree, &mut found);
            rest = behind;
        }
    }
    code.push_str(rest);
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_path(c)).map(str::to_owned);
    found.extend(words.filter(|word| word.starts_with("crate::") || word.starts_with("super::")));
    found
}

/// Resolves a path in a module to another module.
fn target(from: &str, path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut base: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").map(str::trim).peekable();
    match *parts.peek()? {
        "crate" => {
            base.clear();
            parts.next();
        }
        "self" => {
            parts.next();
        }
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        first => {
            let child = base.iter().copied().chain([first]).collect::<Vec<_>>().join("/");
            modules.get(&child)?;
        }
    }
    base.extend(parts);
    let prefixes = (1..=base.len()).rev().map(|length| base[..length].join("/"));
    prefixes.into_iter().find(|name| modules.contains(name)).filter(|name| name != from)
}

/// Returns the reachable modules of each module of a crate.
fn reachable(files: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let files =
        files.iter().filter(|file| !is_test_file(&file.name) && file.name != "test_support.rs");
    let files: BTreeMap<_, _> = files.map(|file| (module(&file.name), file)).collect();
    let modules = files.keys().cloned().collect();
    let edges: BTreeMap<_, BTreeSet<_>> = files
        .iter()
        .map(|(from, file)| {
            let paths = paths(file);
            (from.clone(), paths.iter().filter_map(|path| target(from, path, &modules)).collect())
        })
        .collect();
    let from = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(at) = open.pop() {
            open.extend(edges[at].iter().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    edges.keys().map(|start| (start.clone(), from(start))).collect()
}

/// Returns the import cycles of a crate: sets of modules that reach each other.
fn find_cycles(files: &[Source]) -> BTreeSet<BTreeSet<String>> {
    let reach = reachable(files);
    let tied = reach.iter().filter(|(module, reached)| reached.contains(*module));
    tied.map(|(module, reached)| {
        reached.iter().filter(|other| reach[*other].contains(module)).cloned().collect()
    })
    .collect()
}

#[test]
fn files_of_a_crate_have_no_import_cycles() {
    let crates = crate_names().into_iter().map(|name| format!("crates/{name}/src"));
    let mut broken = Vec::new();
    for top in crates.chain(["src".to_owned()]) {
        for knot in find_cycles(&files_below(&top)) {
            broken.push(format!("{top}: {knot:?} import each other"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
