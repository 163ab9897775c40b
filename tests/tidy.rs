//! Checks of the code's structure beyond cargo manifests: ranks of the server's modules, files that
//! may use a crate, and conventions for every file. Cargo enforces the layers between crates.
//!
//! The tables below implement `docs/architecture.md`, and change together with it. The lists of
//! exceptions may only get shorter.

#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/figures.rs"]
mod figures;
#[path = "tidy/literals.rs"]
mod literals;
#[path = "tidy/messages.rs"]
mod messages;
#[path = "tidy/prose.rs"]
mod prose;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the server with their ranks. A file may import its own module, and modules of a
/// strictly lower rank.
const RANKS: [(&str, u8); 3] = [("cli", 9), ("app", 8), ("api", 7)];

/// Files and modules that may use an external crate, although the manifest allows it in more files.
const CRATE_USERS: [(&str, &[&str]); 33] = [
    // Replaces SlateDB's own caches, which do not report their size.
    ("moka", &["store/block_cache.rs"]),
    (
        "slatedb_common",
        &["kms/sealed_objects.rs", "store/storage/", "store/metrics.rs", "wal/bucket/"],
    ),
    ("slatedb", &["store/", "wal/", "kms/block_transformer.rs", "kms/sealed_objects.rs"]),
    ("aws_config", &["kms/aws.rs"]),
    ("aws_sdk_kms", &["kms/aws.rs"]),
    (
        "aws_lc_rs",
        &[
            "app/cluster/identity.rs",
            "app/webhooks/sender.rs",
            "cli/watch/sink/tls.rs",
            "kms/",
            "objects/vend/azure.rs",
        ],
    ),
    // The load generator writes to the object stores of servers, and delays their responses.
    (
        "object_store",
        &[
            "objects/",
            "store/open.rs",
            "wal/bucket/",
            "load/bare_put.rs",
            "load/command/serve.rs",
            "load/slow_store.rs",
        ],
    ),
    ("snap", &["objects/avro/decompress.rs"]),
    // Metadata files, manifests, and responses.
    (
        "flate2",
        &[
            "model/deflate.rs",
            "objects/metadata_file.rs",
            "objects/avro/decompress.rs",
            "objects/avro/encode.rs",
        ],
    ),
    ("zstd", &["store/compression.rs", "objects/avro/decompress.rs", "api/coding.rs"]),
    (
        "crc32fast",
        &[
            "wal/",
            "store/files/sorted_runs.rs",
            "authn/",
            "model/deflate.rs",
            "objects/avro/decompress.rs",
        ],
    ),
    // Credentials for the files of tables, and signatures for requests.
    ("aws_sdk_sts", &["objects/vend/aws.rs", "objects/vend/s3_store.rs", "objects/sign/"]),
    ("aws_sigv4", &["objects/sign/"]),
    ("quick_xml", &["objects/sign/", "objects/vend/azure.rs"]),
    // The API and embedded catalogs hash requests, and authentication hashes credentials. Chunks of
    // metadata, read restrictions and policy sets are identified by their content.
    (
        "sha2",
        &[
            "api/",
            "app/cluster/identity.rs",
            "app/cluster/unverified.rs",
            "embedded/fingerprint.rs",
            "authn/",
            "model/segmented_json.rs",
            "model/read_restrictions.rs",
            "authz/policy_set.rs",
            "config/shared_hashes.rs",
            "objects/vend/azure.rs",
        ],
    ),
    (
        "reqwest",
        &[
            "app/",
            "runtime/",
            "cli/client.rs",
            "cli/migrate/",
            "objects/vend/",
            "objects/sign/check.rs",
            "telemetry/otlp/",
        ],
    ),
    (
        "percent_encoding",
        &[
            "api/",
            "objects/sign/",
            "objects/location.rs",
            "objects/reachable.rs",
            "telemetry/otlp/",
        ],
    ),
    // Determines the route of a request in the same way as axum.
    ("matchit", &["api/route_index.rs"]),
    // The load generator compares reads with a handler that uses the same HTTP library without a
    // catalog.
    ("axum", &["api/", "app/", "load/bare_read.rs"]),
    // The server's connections, and those of the load generator.
    ("hyper", &["app/cluster/feed_reader.rs", "app/connections/", "load/"]),
    ("hyper_util", &["app/connections/", "load/"]),
    ("tower_http", &["api/cors.rs"]),
    ("governor", &["api/rate_limits.rs", "api/rejection_log.rs", "base/rate.rs"]),
    (
        "rustls",
        &[
            "app/cluster/identity.rs",
            "app/cluster/member_tls.rs",
            "app/tls/",
            "cli/watch/sink/tls.rs",
            "cli/watch/sink/kafka.rs",
        ],
    ),
    ("rustls_native_certs", &["cli/watch/sink/tls.rs"]),
    ("async_nats", &["cli/watch/sink/nats.rs"]),
    ("rskafka", &["cli/watch/sink/kafka.rs"]),
    ("tokio_rustls", &["app/cluster/member_tls.rs", "app/tls/"]),
    ("rcgen", &["app/cluster/identity.rs"]),
    ("clap", &["cli/", "load/command/", "load/main.rs"]),
    ("indicatif", &["cli/progress.rs"]),
    ("rusqlite", &["cli/migrate/sql.rs"]),
    ("tikv_jemallocator", &["main.rs", "load/main.rs"]),
];

/// Words that the code of a module may not contain, with the reason.
const FORBIDDEN: [(&str, &[&str], &str); 4] = [
    ("model/", IMPURE, "the model is pure"),
    ("authz/", IMPURE, "decisions are pure"),
    ("cluster/", IMPURE, "the election is pure"),
    (
        "api/",
        &["slateberg_authz", "slateberg_store"],
        "handlers do not authorize requests and do not use records",
    ),
];

/// Words that pure code does not contain. Manifests exclude tasks and logging, but not the standard
/// library.
const IMPURE: &[&str] = &["async fn", ".await", "std::fs", "Instant::now", "SystemTime"];

/// Words that declare state of a process or of a thread. A `OnceLock` may be a member of a value.
const GLOBALS: [&str; 5] = ["static ", "static mut", "thread_local!", "LazyLock", "lazy_static"];

/// Files that may declare such state, with the reason. All other state belongs to values that are
/// passed to the code that uses them, so that two catalogs in one process do not share state.
const GLOBAL_USERS: [(&str, &str); 4] = [
    ("main.rs", "Rust requires a static for the allocator of the program"),
    ("load/main.rs", "Rust requires a static for the allocator of the program"),
    (
        "telemetry/stripes.rs",
        "a thread keeps its stripe for all metrics; the number has no meaning",
    ),
    ("store/compression.rs", "the contexts of zstd have no content; codecs have no state"),
];

/// Maximum number of code lines of a file, without tests.
const FILE_LINES_MAX: usize = 400;
/// Maximum number of lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of columns of a line.
const COLUMNS_MAX: usize = 100;

/// Longer files, with the reason.
const LONG_FILES: [(&str, &str); 0] = [];

#[test]
fn modules_of_the_server_import_only_lower_ranks() {
    let broken = imports_of_higher_ranks(&files_below("src"));
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn import_of_a_higher_rank_is_found() {
    let files = |api: &str| {
        let file = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned() };
        [
            file("lib.rs", "pub mod api;"),
            file("cli/mod.rs", ""),
            file("app/tls.rs", ""),
            file("api/a.rs", api),
        ]
    };
    for import in [
        "use crate::app::tls::Tls;",
        "use crate::{\n    api::a,\n    app::tls,\n};",
        "fn f() -> crate::app::tls::Tls {}",
        "use super::super::app::tls::Tls;",
        "#[cfg(test)]\nmod tests;\n\nuse crate::app::tls::Tls;",
        "#[cfg(test)]\nmod tests {\n    use a::B;\n}\n\nfn f() -> crate::app::tls::Tls {}",
    ] {
        assert_eq!(imports_of_higher_ranks(&files(import)), ["api/a imports app/tls"], "{import}");
    }
    let test = "#[cfg(test)]\nmod tests {\n    use crate::app::tls::Tls;\n}";
    assert_eq!(imports_of_higher_ranks(&files(test)), Vec::<String>::new());
    let lower = [Source { name: "cli/a.rs".to_owned(), text: "use crate::api::a;".to_owned() }];
    assert_eq!(imports_of_higher_ranks(&lower), Vec::<String>::new());
}

/// Returns the imports of modules with the same rank or a higher one.
fn imports_of_higher_ranks(files: &[Source]) -> Vec<String> {
    let ranks = BTreeMap::from(RANKS);
    let top = |module: &str| module.split('/').next().unwrap_or_default().to_owned();
    let rank = |module: &str| *ranks.get(module).unwrap_or_else(|| panic!("{module} has no rank"));
    let mut broken = Vec::new();
    for (module, imported) in cycles::imports(files) {
        let (from, to) = (top(&module), top(&imported));
        let is_root = from.is_empty() || to.is_empty();
        if !is_root && from != to && rank(&to) >= rank(&from) {
            broken.push(format!("{module} imports {imported}"));
        }
    }
    broken
}

#[test]
fn external_crates_are_used_only_where_the_list_permits() {
    let mut broken = Vec::new();
    for file in sources() {
        for (name, modules) in CRATE_USERS {
            let names_it = [format!("{name}::"), format!("use {name};")]
                .iter()
                .any(|mention| file.mentions(mention));
            if names_it && !modules.iter().any(|module| file.name.starts_with(module)) {
                broken.push(format!("{} names {name}", file.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn forbidden_code_does_not_occur() {
    let mut broken = Vec::new();
    for file in sources() {
        for (module, words, reason) in FORBIDDEN {
            for word in words.iter().filter(|_| file.name.starts_with(module)) {
                if file.mentions(word) {
                    broken.push(format!("{}: {word} ({reason})", file.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn globals_are_declared_only_in_the_listed_files() {
    let is_listed = |file: &Source| GLOBAL_USERS.iter().any(|(name, _)| *name == file.name);
    let (listed, others): (Vec<_>, Vec<_>) = sources().into_iter().partition(is_listed);
    let broken: Vec<_> =
        others.iter().filter(|file| file.declares_globals()).map(|file| &file.name).collect();
    assert!(broken.is_empty(), "{broken:#?} declare globals");
    assert_eq!(listed.len(), GLOBAL_USERS.len());
    assert!(listed.iter().all(Source::declares_globals), "a file can leave the list");
}

#[test]
fn declaration_of_a_global_is_found() {
    let declares =
        |text: &str| Source { name: "a.rs".to_owned(), text: text.to_owned() }.declares_globals();
    assert!(declares("pub(crate) static A: AtomicU64 = AtomicU64::new(0);"));
    assert!(declares("fn f() {\n    static A: u8 = 0;\n}"));
    assert!(declares("#[cfg(test)]\nmod tests;\n\nthread_local! {}"));
    assert!(declares("use std::sync::{\n    LazyLock,\n};"));
    assert!(!declares("fn f() -> &'static str {\n    \"\"\n}"));
    assert!(!declares("#[cfg(test)]\nmod tests {\n    static A: u8 = 0;\n}"));
    assert!(!declares("// a static value"));
}

#[test]
fn every_file_has_a_summary_and_keeps_the_size_limits() {
    let mut broken = Vec::new();
    for file in sources() {
        if !file.text.starts_with("//!") {
            broken.push(format!("{} does not begin with //!", file.name));
        }
        let lines = file.code_lines();
        let listed = LONG_FILES.iter().any(|(name, _)| *name == file.name);
        if lines > FILE_LINES_MAX && !listed {
            broken.push(format!("{} has {lines} lines of code", file.name));
        }
        if lines <= FILE_LINES_MAX && listed {
            broken.push(format!("{} is short enough to leave the list", file.name));
        }
        for (function, lines) in file.functions() {
            if lines > FUNCTION_LINES_MAX && !is_test_file(&file.name) {
                broken.push(format!("{}: {function} has {lines} lines", file.name));
            }
        }
        for (number, line) in file.text.lines().enumerate() {
            // A long string literal cannot be broken without changing its meaning.
            if line.chars().count() > COLUMNS_MAX + 10 && !line.contains('"') {
                broken.push(format!("{}:{} is too wide", file.name, number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn no_file_contains_leftovers() {
    // Composed here, so that this file does not contain the words.
    let words = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()];
    let mut broken = Vec::new();
    for file in sources().into_iter().chain(files_below("tests")) {
        for word in &words {
            if file.text.contains(word.as_str()) {
                broken.push(format!("{} holds {word}", file.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A source file.
struct Source {
    /// Its path below `src` or `tests`, with slashes.
    name: String,
    text: String,
}

impl Source {
    /// Returns its lines without comments and test items.
    fn code(&self) -> impl Iterator<Item = &str> {
        let mut lines = self.text.lines();
        std::iter::from_fn(move || {
            let mut line = lines.next()?;
            while line.trim() == "#[cfg(test)]" {
                let indent = &line[..line.len() - line.trim_start().len()];
                // An item ends with the first line at its own indentation that closes it, because
                // the formatter indents all lines in between.
                let is_end = |line: &str| {
                    line.strip_prefix(indent).is_some_and(|line| {
                        let is_closed = line.starts_with('}') || line.ends_with([';', '}']);
                        is_closed && !line.starts_with(' ')
                    })
                };
                lines.find(|line| is_end(line))?;
                line = lines.next()?;
            }
            Some(line)
        })
        .filter(|line| !line.trim_start().starts_with("//"))
    }

    fn code_lines(&self) -> usize {
        if is_test_file(&self.name) { 0 } else { self.code().count() }
    }

    fn mentions(&self, word: &str) -> bool {
        !is_test_file(&self.name) && self.code().any(|line| mentions(line, word))
    }

    fn declares_globals(&self) -> bool {
        let is_global = |line: &str, word: &str| {
            line.match_indices(word).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '\''))
            })
        };
        !is_test_file(&self.name)
            && self.code().any(|line| GLOBALS.iter().any(|word| is_global(line, word)))
    }

    /// Returns the functions with their lengths, by the formatter's indentation.
    fn functions(&self) -> Vec<(String, usize)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut functions = Vec::new();
        for (start, line) in lines.iter().enumerate() {
            let trimmed = line.trim_start();
            let indent = &line[..line.len() - trimmed.len()];
            let Some((_, signature)) = split_fn(trimmed) else { continue };
            // A function of a trait without a body ends with a semicolon.
            let ends = |line: &&&str| line.ends_with([';', '{', '}']);
            if lines[start..].iter().find(ends).is_none_or(|line| line.ends_with(';')) {
                continue;
            }
            let close = format!("{indent}}}");
            if let Some(length) = lines[start..].iter().position(|line| *line == close) {
                let name = signature.split(['(', '<']).next().unwrap_or_default();
                functions.push((name.to_owned(), length + 1));
            }
        }
        functions
    }
}

fn split_fn(line: &str) -> Option<(&str, &str)> {
    let (before, signature) = line.split_once("fn ")?;
    let modifiers = ["pub", "async", "const", "unsafe", "pub(super)", "pub(crate)"];
    let plain = before.split_whitespace().all(|word| {
        modifiers.contains(&word) || word.starts_with("pub(") || word.ends_with(')') || word == "in"
    });
    plain.then_some((before, signature))
}

/// Whether a line contains a word that is not the tail of a longer path or name.
fn mentions(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            || !word.ends_with("::")
    })
}

fn is_test_file(name: &str) -> bool {
    ["tests.rs", "testing.rs"].iter().any(|end| name.ends_with(end)) || name.contains("/tests/")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of the server, and those of each other crate below the crate's name.
fn sources() -> Vec<Source> {
    let mut found = files_below("src");
    for name in crate_names() {
        let files = files_below(&format!("crates/{name}/src")).into_iter();
        found.extend(files.map(|file| Source { name: format!("{name}/{}", file.name), ..file }));
    }
    let load = files_below("benches/load/src").into_iter();
    found.extend(load.map(|file| Source { name: format!("load/{}", file.name), ..file }));
    found
}

/// Returns the directories in `crates`.
fn crate_names() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the directory can be read");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.map(name).collect()
}

fn files_below(directory: &str) -> Vec<Source> {
    let top = root().join(directory);
    let mut found = Vec::new();
    collect(&top, &top, &mut found);
    assert!(!found.is_empty(), "there are files below {directory}");
    found
}

fn collect(top: &Path, directory: &Path, found: &mut Vec<Source>) {
    let entries = fs::read_dir(directory).expect("the directory can be read");
    for path in entries.map(|entry| entry.expect("the entry can be read").path()) {
        if path.is_dir() {
            collect(top, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(top).expect("it is below").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("the file can be read");
            found.push(Source { name, text });
        }
    }
}
