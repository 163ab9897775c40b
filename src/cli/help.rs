//! The help of the program: groups of subcommands, examples and exit codes. Also defines the long
//! version text.

use clap::Command;
use clap::builder::StyledStr;

use crate::app::COMMIT;
use slateberg_base::version::VERSION;
use slateberg_store::records::FORMAT_VERSION;

/// The groups of subcommands, in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Server", &["serve", "config"]),
    (
        "Catalog, on a running server (SLATEBERG_URL)",
        &[
            "ls",
            "search",
            "table",
            "plan",
            "function",
            "history",
            "watch",
            "cursor",
            "webhook",
            "rollback",
            "namespace",
            "undrop",
            "dropped",
            "protect",
            "unprotect",
            "protected",
            "label",
            "warehouse",
            "job",
            "encryption",
            "migrate",
        ],
    ),
    (
        "Access, on a running server (SLATEBERG_URL)",
        &["key", "grant", "revoke", "grants", "policy"],
    ),
    (
        "Data protection, directly on the catalog's storage (only checkpoint calls a running server)",
        &["checkpoint", "restore", "clone", "export", "import"],
    ),
    ("Diagnostics, without calling a server", &["doctor", "fsck", "store"]),
    ("Other", &["completions", "man"]),
];

const EXIT_CODES: &str = "  0   success
  1   any other failure
  2   wrong command line
  3   policy explain: the request would be denied
  65  damaged records or files
  69  server or object store unreachable
  75  data or port in use by another process
  77  credential rejected or permission missing
  78  wrong settings";

const EXAMPLES: &str = include_str!("examples.txt");

/// Completes the help of a command line definition.
pub(super) fn with_help(command: Command) -> Command {
    let command = with_examples(command, "");
    let heading = *command.get_styles().get_header();
    let groups = groups(&command);
    let version = format!("{VERSION} ({COMMIT})\nstore format {FORMAT_VERSION}");
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    let help = "Run 'slateberg COMMAND --help' for the options and examples of a command.";
    let long_help = format!("{heading}Exit codes:{heading:#}\n{EXIT_CODES}\n\n{help}");
    command
        .help_template(template)
        .after_help(help)
        .after_long_help(long_help)
        .long_version(version)
}

/// Lists the subcommands under the headings of their groups. The last group also contains all
/// subcommands that belong to no group.
fn groups(command: &Command) -> String {
    let styles = command.get_styles();
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let all = || command.get_subcommands().filter(|it| !it.is_hide_set());
    let width = all().map(|it| it.get_name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for (number, (title, names)) in GROUPS.iter().enumerate() {
        text += &format!("{heading}{title}:{heading:#}\n");
        let named = names.iter().filter_map(|name| command.find_subcommand(name));
        let others = all().filter(|it| number + 1 == GROUPS.len() && !is_grouped(it.get_name()));
        for subcommand in named.chain(others) {
            let name = subcommand.get_name();
            let about = subcommand.get_about().map(StyledStr::to_string).unwrap_or_default();
            text += &format!("  {literal}{name:width$}{literal:#}  {about}\n");
        }
        text.push('\n');
    }
    text
}

/// Adds the sections of `examples.txt` to the long help of the command at `path` and of all its
/// subcommands.
fn with_examples(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name());
        with_examples(subcommand, path.trim_start())
    });
    let Some(lines) = section(path) else { return command };
    let heading = *command.get_styles().get_header();
    let mut text = format!("{heading}Examples:{heading:#}");
    for line in lines.lines() {
        text += &format!("\n  {line}");
    }
    command.after_long_help(text)
}

/// Returns the examples of a subcommand.
fn section(path: &str) -> Option<&'static str> {
    let (_, rest) = EXAMPLES.split_once(&format!("\n[{path}]\n"))?;
    Some(rest.split_once("\n[").map_or(rest, |(section, _)| section).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, definition};
    use clap::CommandFactory;

    /// Collects the paths of all subcommands that have no further subcommands.
    fn leaf_paths(command: &Command, path: &str, found: &mut Vec<String>) {
        for subcommand in command.get_subcommands() {
            let path = format!("{path} {}", subcommand.get_name()).trim_start().to_owned();
            if subcommand.has_subcommands() {
                leaf_paths(subcommand, &path, found)
            } else {
                found.push(path)
            }
        }
    }

    #[test]
    fn command_line_definition_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn every_subcommand_without_subcommands_has_examples() {
        let mut found = Vec::new();
        leaf_paths(&Cli::command(), "", &mut found);
        found.retain(|path| section(path).is_none());
        assert_eq!(found, Vec::<String>::new());
    }
}
