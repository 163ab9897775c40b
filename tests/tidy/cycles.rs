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

/// A path in a file. If the path belongs to a use-tree, also the name under which the file imports
/// it.
struct Mention {
    path: String,
    name: Option<String>,
}

/// Adds the paths of a use-tree with their names.
fn flatten(prefix: &str, tree: &str, into: &mut Vec<Mention>) {
    let Some((head, body)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = format!("{prefix}{}", path.trim());
        let path = path.strip_suffix("::self").unwrap_or(&path).to_owned();
        let last = path.rsplit("::").next().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias.trim() }.to_owned();
        into.push(Mention { path, name: Some(name) });
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

/// Returns the paths in a file: those of its use-trees, and those in its code.
fn mentions(file: &Source) -> Vec<Mention> {
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
    let words = code.split(|c| !is_path(c)).filter(|word| word.contains("::"));
    found.extend(words.map(|word| Mention { path: word.to_owned(), name: None }));
    found
}

/// The modules of a crate, with the paths in each.
struct Modules(BTreeMap<String, Vec<Mention>>);

impl Modules {
    fn new(files: &[Source]) -> Self {
        let files =
            files.iter().filter(|file| !is_test_file(&file.name) && file.name != "test_support.rs");
        let mut modules: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for file in files {
            // `lib.rs` and `main.rs` are both the root.
            modules.entry(module(&file.name)).or_default().extend(mentions(file));
        }
        Self(modules)
    }

    /// Returns the path below the root of the crate. `None`: the path begins in another crate.
    fn absolute(&self, from: &str, path: &str) -> Option<Vec<String>> {
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
                self.0.get(&child)?;
            }
        }
        Some(base.into_iter().chain(parts).map(str::to_owned).collect())
    }

    /// Returns the module that defines the item to which a path in another module refers. Follows
    /// the names that a module on the path imports or re-exports. `None`: another crate defines it.
    fn definition(&self, from: &str, path: &str) -> Option<String> {
        let path = self.absolute(from, path)?;
        let lengths = (0..=path.len()).rev();
        let mut candidates = lengths.map(|length| (length, path[..length].join("/")));
        let (length, module) = candidates.find(|(_, name)| self.0.contains_key(name))?;
        let next = path.get(length);
        let imported = self.0[&module].iter().find(|it| it.name.as_ref() == next && next.is_some());
        match imported {
            Some(it) if module != from => self.definition(&module, &it.path),
            _ => Some(module),
        }
    }

    /// Returns the modules that each module imports.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let of = |(from, mentions): (&String, &Vec<Mention>)| {
            let found = mentions.iter().filter_map(|it| self.definition(from, &it.path));
            found.filter(|module| module != from).collect()
        };
        self.0.iter().map(|entry| (entry.0.as_str(), of(entry))).collect()
    }
}

/// Returns each import of one module by another.
pub(super) fn imports(files: &[Source]) -> Vec<(String, String)> {
    let modules = Modules::new(files);
    let imports = modules.edges().into_iter();
    imports.flat_map(|(from, to)| to.into_iter().map(|to| (from.to_owned(), to))).collect()
}

/// Returns the reachable modules of each module of a crate.
fn reachable(files: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let modules = Modules::new(files);
    let edges = modules.edges();
    let from = |start: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start.to_owned()]);
        while let Some(at) = open.pop() {
            let next = edges[at.as_str()].iter().filter(|next| seen.insert((*next).clone()));
            open.extend(next.cloned());
        }
        seen
    };
    edges.keys().map(|start| ((*start).to_owned(), from(start))).collect()
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

fn source(name: &str, text: &str) -> Source {
    Source { name: name.to_owned(), text: text.to_owned() }
}

/// Returns the cycles of a crate whose root has the text `root`, and whose file `a.rs` has the text
/// `a`. The file `b.rs` imports an item of `a.rs`.
fn cycles_of(root: &str, a: &str) -> Vec<Vec<String>> {
    let b = source("b.rs", "use super::a::A;\npub struct B;");
    let found = find_cycles(&[source("lib.rs", root), source("a.rs", a), b]);
    found.into_iter().map(|cycle| cycle.into_iter().collect()).collect()
}

#[test]
fn a_cycle_through_a_name_that_the_root_re_exports_is_found() {
    let root = "mod a;\nmod b;\npub use b::{B as Exported};";
    let cycle = [["a", "b"]];
    assert_eq!(cycles_of(root, "use super::Exported;"), cycle);
    assert_eq!(cycles_of(root, "use crate::{\n    Exported,\n};"), cycle);
    assert_eq!(cycles_of(root, "fn a() -> crate::Exported {}"), cycle);
    assert_eq!(cycles_of(root, "use super::b::B;"), cycle);
    assert_eq!(cycles_of(root, "// use super::Exported;"), [[""; 0]; 0]);
}

#[test]
fn a_cycle_through_an_item_that_the_root_defines_is_found() {
    let root = "mod a;\nmod b;\nuse a::A;\npub type Result = A;";
    assert_eq!(cycles_of(root, "use super::Result;"), [["", "a"]]);
    let root = "mod a;\nmod b;\npub type Result = a::A;";
    assert_eq!(cycles_of(root, "fn a() -> crate::Result {}"), [["", "a"]]);
}

#[test]
fn names_that_the_root_re_exports_from_other_crates_are_no_cycle() {
    let root = "mod a;\nmod b;\npub use a::A;\npub use other::Name;";
    assert_eq!(cycles_of(root, "use super::Name;\npub struct A;"), [[""; 0]; 0]);
}
