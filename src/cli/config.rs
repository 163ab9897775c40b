//! `slateberg config`: validates settings, and prints the effective ones.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::exit::{Exit, Failure, Outcome};
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json, table};
use super::{Common, print, runtime};
use crate::app::build::Seams;
use crate::app::check::check;
use crate::config::layers::Place;
use crate::config::problem::Problem;
use crate::config::read;

/// Validate or print the effective settings.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check files and environment as `serve` would read them, without a start
    Check(Reading),
    /// Print every effective setting and its source. Secrets are hidden
    Show(Reading),
}

#[derive(Debug, Args)]
struct Reading {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Config {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Check(reading) => reading.check(),
            Command::Show(reading) => reading.show(),
        }
    }
}

impl Reading {
    fn check(self) -> Outcome {
        let mut read = read(&self.common.sources());
        self.common.change(&mut read.settings);
        // Some clients of object stores want a runtime around them when they are made.
        let found = runtime()?.block_on(async { check(&read.settings, &Seams::default()) });
        let found_out = found.problems.into_iter();
        let found_out = found_out.map(|it| read.problem(&it.key, it.message));
        let mut problems = read.problems.clone();
        problems.extend(found_out);
        let sources = match read.sources() {
            sources if sources.is_empty() => "the defaults alone".to_owned(),
            sources => sources.join(", "),
        };
        match self.output {
            Output::Table if problems.is_empty() => {
                let rows = found.summary.iter().map(|(what, how)| format!("  {what:<12}{how}\n"));
                print(&format!("ok: {sources}\n{}", rows.collect::<String>()));
            }
            Output::Table => {
                let texts = problems.iter().map(|problem| format!("error: {problem}\n\n"));
                let count = match problems.len() {
                    1 => "1 problem".to_owned(),
                    count => format!("{count} problems"),
                };
                print(&format!("{}{count} in {sources}\n", texts.collect::<String>()));
            }
            Output::Json => {
                let summary = found.summary.iter().map(|(what, how)| json!([what, how]));
                print_json(&json!({
                    "valid": problems.is_empty(),
                    "sources": read.sources(),
                    "problems": problems.iter().map(problem_json).collect::<Vec<_>>(),
                    "summary": summary.collect::<Vec<_>>(),
                }));
            }
        }
        match problems.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Failure::new(Exit::Settings, "the settings are wrong: see the output")),
        }
    }

    fn show(self) -> Outcome {
        let mut read = read(&self.common.sources());
        if !read.problems.is_empty() {
            let texts: Vec<_> = read.problems.iter().map(ToString::to_string).collect();
            return Err(Failure::new(Exit::Settings, texts.join("\n")));
        }
        self.common.change(&mut read.settings);
        let settings = read.settings_with_places();
        match self.output {
            Output::Table => {
                let row = |it: &crate::config::show::Setting| {
                    [it.key.clone(), it.value.to_string(), it.place.to_string()]
                };
                let rows: Vec<_> = settings.iter().map(row).collect();
                print(&table(["KEY", "VALUE", "FROM"], &rows));
            }
            Output::Json => {
                let one = |it: &crate::config::show::Setting| {
                    let mut shown = json!({ "key": it.key, "value": it.value });
                    tell_place(&mut shown, &it.place);
                    shown
                };
                print_json(&json!({ "settings": settings.iter().map(one).collect::<Vec<_>>() }));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn problem_json(problem: &Problem) -> Value {
    let mut shown = json!({
        "key": problem.key, "message": problem.message, "help": problem.help,
    });
    tell_place(&mut shown, &problem.place);
    shown
}

fn tell_place(shown: &mut Value, place: &Place) {
    match place {
        Place::Default => {}
        Place::MemoryShare => shown["derived_from"] = json!("memory_bytes_max"),
        Place::Variable(name) => shown["variable"] = json!(name),
        Place::File { file, line, column } => {
            shown["file"] = json!(file);
            shown["line"] = json!(line);
            shown["column"] = json!(column);
        }
    }
}
