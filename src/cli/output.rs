//! What subcommands print: columns for people, JSON for programs.

use clap::ValueEnum;

use super::print;

/// The heading of the options that every subcommand has.
pub(super) const GLOBAL: &str = "Global options";
pub(super) const OUTPUT_HELP: &str = "Format of results and errors";

/// The format of results and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Prints JSON, with a line's end.
pub(super) fn print_json(value: &serde_json::Value) {
    print(&format!("{value:#}\n"));
}

/// A member of an answer as text; empty if it is none.
pub(super) fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A number and the noun that goes with it, such as `1,234 tables`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {}", if number == 1 { one } else { many })
}

/// A length of time, in its largest unit.
pub(super) fn span(ms: i64) -> String {
    match ms / 1000 {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 3600 => format!("{} min", seconds / 60),
        seconds if seconds < 2 * 86400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

/// Rows under headings, each column as wide as its widest text.
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

/// Characters of an id that stand for it beside a name.
const SHORT_ID_CHARS: usize = 8;

/// A principal with its name, if the server knows one, such as `bootstrap (01a204c8...)`.
pub(super) fn principal(id: &serde_json::Value, name: &serde_json::Value) -> String {
    let id = text(id);
    match name.as_str() {
        Some(name) => {
            format!("{name} ({}...)", id.chars().take(SHORT_ID_CHARS).collect::<String>())
        }
        None => id,
    }
}

/// Prints the `warnings` of a response on standard error.
pub(super) fn print_warnings(response: &serde_json::Value) {
    use std::io::Write;
    for warning in response["warnings"].as_array().into_iter().flatten() {
        // Without standard error, there is no place for a warning.
        let _ = writeln!(std::io::stderr(), "slateberg: warning: {}", text(warning));
    }
}
