//! `slateberg config`: validates settings, and prints the effective ones.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::Common;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json, table};
use super::runtime::runtime;
use super::settings_check::{SettingsCheck, add_source};
use slateberg_config::read;
use slateberg_runtime::dependencies::Dependencies;

/// Validate or print the effective settings.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the settings files and environment variables that `serve` would use. Starts no server
    Check(ConfigArgs),
    /// Print every effective setting and its source. Secrets are hidden
    Show(ConfigArgs),
}

#[derive(Debug, Args)]
struct ConfigArgs {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Config {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Check(arguments) => arguments.check(),
            Command::Show(arguments) => arguments.show(),
        }
    }
}

impl ConfigArgs {
    fn check(self) -> Outcome {
        let sources = self.common.sources();
        let checked = runtime()?.block_on(async {
            SettingsCheck::new(
                &sources,
                |settings| self.common.change(settings),
                &Dependencies::default(),
            )
        });
        let is_valid = checked.problems.is_empty();
        match self.output {
            Output::Table if is_valid => {
                let summary = checked.findings.summary.iter();
                let rows = summary.map(|(label, text)| format!("  {label:<12}{text}\n"));
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
        let settings = read.settings_with_sources();
        match self.output {
            Output::Table => {
                let row = |it: &slateberg_config::show::Setting| {
                    [it.key.clone(), it.value.to_string(), it.source.to_string()]
                };
                let rows: Vec<_> = settings.iter().map(row).collect();
                print(&table(["KEY", "VALUE", "FROM"], &rows));
            }
            Output::Json => {
                let setting_json = |it: &slateberg_config::show::Setting| {
                    let mut value = json!({ "key": it.key, "value": it.value });
                    add_source(&mut value, &it.source);
                    value
                };
                print_json(
                    &json!({ "settings": settings.iter().map(setting_json).collect::<Vec<_>>() }),
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
