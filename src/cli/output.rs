//! Output of subcommands: tables for people, JSON for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) use slateberg_base::numbers::{count, grouped};
use slateberg_base::rfc3339;

/// The heading of the options that all subcommands share.
pub(super) const GLOBAL: &str = "Global options";
pub(super) const OUTPUT_HELP: &str = "Format of results and errors";

/// The format of results and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Table,
    Json,
}

/// Writes to standard output. The command does not fail if the reader closes standard output early.
pub(super) fn print(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints JSON. Adds an RFC 3339 time beside each time in milliseconds.
pub(super) fn print_json(value: &impl Serialize) {
    print(&json_text(value));
}

/// Formats JSON. Adds an RFC 3339 time beside each time in milliseconds.
pub(super) fn json_text(value: &impl Serialize) -> String {
    let mut value = json!(value);
    add_times(&mut value);
    format!("{value:#}\n")
}

/// Adds a member `...at` in RFC 3339 beside each member `...at-ms` in milliseconds.
pub(super) fn add_times(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(add_times),
        Value::Object(members) => {
            members.values_mut().for_each(add_times);
            let time = |(name, value): (&String, &Value)| {
                let name = name
                    .strip_suffix("-ms")
                    .filter(|name| *name == "at" || name.ends_with("-at"))?;
                Some((name.to_owned(), Value::from(rfc3339::format(value.as_i64()?))))
            };
            let times: Vec<_> = members.iter().filter_map(time).collect();
            members.extend(times);
        }
        _ => {}
    }
}

/// Formats a time in milliseconds as a cell of a table.
pub(super) fn time(at_ms: Option<i64>) -> String {
    at_ms.map_or("-".to_owned(), rfc3339::format_seconds)
}

/// Formats pairs of a name and a value, without a heading.
pub(super) fn lines_of(rows: &[[String; 2]]) -> String {
    table(["", ""], rows).lines().skip(1).map(|line| format!("{line}\n")).collect()
}

/// Formats a size in its largest unit.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut size, mut unit) = (bytes as f64, "bytes");
    for larger in UNITS {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{size:.1} {unit}") }
}

/// Formats rows under headings. Each column is as wide as its widest text.
pub(super) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let texts = rows.iter().map(|row| row[column].as_str()).chain([headings[column]]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |texts: [&str; N]| {
        let cells = texts.iter().zip(widths).map(|(text, width)| format!("{text:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let rows = rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(headings)).chain(rows).collect()
}

/// Number of characters of an id that are printed beside a name. Ids that were created in the same
/// minute may have the same first 8 characters.
const SHORT_ID_CHARS: usize = 13;

/// Formats a principal with its name, if the server returned one, such as `bootstrap
/// (01a204c8-3051...)`.
pub(super) fn principal(id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => {
            format!("{name} ({}...)", id.chars().take(SHORT_ID_CHARS).collect::<String>())
        }
        None => id.to_owned(),
    }
}

/// Prints the `warnings` of a response on standard error.
pub(super) fn print_warnings(warnings: &[String]) {
    use std::io::Write;
    for warning in warnings {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "slateberg: warning: {warning}");
    }
}
