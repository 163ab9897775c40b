//! `slateberg config`: validates settings, and prints the effective ones.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::Common;
use super::checked::{Checked, add_place};
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json, table};
use super::runtime::runtime;
use slateberg_config::read;
use slateberg_runtime::seams::Seams;

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
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Check(reading) => reading.check(),
            Command::Show(reading) => reading.show(),
        }
    }
}

impl Reading {
    fn check(self) -> Outcome {
        let sources = self.common.sources();
        let checked = runtime()?.block_on(async {
            Checked::new(&sources, |settings| self.common.change(settings), &Seams::default())
        });
        let is_valid = checked.problems.is_empty();
        match self.output {
            Output::Table if is_valid => {
                let summary = checked.findings.summary.iter();
                let rows = summary.map(|(what, how)| format!("  {what:<12}{how}\n"));
                let (sources, warnings) = (checked.sources(), checked.warnings());
                print(&format!("ok: {sources}\n{}{warnings}", rows.collect::<String>()));
            }
            Output::Table => print(&checked.report()),
            Output::Json => print_json(&checked.json()),
        }
        if is_valid {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new(Exit::Settings, "the settings are wrong: see the output"))
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
                let row = |it: &slateberg_config::show::Setting| {
                    [it.key.clone(), it.value.to_string(), it.place.to_string()]
                };
                let rows: Vec<_> = settings.iter().map(row).collect();
                print(&table(["KEY", "VALUE", "FROM"], &rows));
            }
            Output::Json => {
                let one = |it: &slateberg_config::show::Setting| {
                    let mut shown = json!({ "key": it.key, "value": it.value });
                    add_place(&mut shown, &it.place);
                    shown
                };
                print_json(&json!({ "settings": settings.iter().map(one).collect::<Vec<_>>() }));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
