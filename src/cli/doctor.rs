//! `slateberg doctor`: checks the environment of a configuration before a server runs in it.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::Common;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use super::runtime::runtime;
use super::settings_check::SettingsCheck;
use crate::app::doctor::{Check, Severity, examine};
use slateberg_runtime::dependencies::Dependencies;

/// Test buckets, KMS, issuers, clocks, ports and files of a configuration.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Doctor {
    /// Runs all checks.
    pub fn run(self) -> Outcome {
        runtime()?.block_on(async {
            let dependencies = Dependencies::default();
            let sources = self.common.sources();
            let checked = SettingsCheck::new(
                &sources,
                |settings| self.common.change(settings),
                &dependencies,
            );
            if !checked.problems.is_empty() {
                match self.output {
                    Output::Table => print(&checked.report()),
                    Output::Json => print_json(&checked.json()),
                }
                return Err(Failure::new(
                    Exit::Settings,
                    "the settings are wrong, nothing was tested: see the output",
                ));
            }
            let checks = Box::pin(examine(&checked.read.settings, &dependencies)).await;
            match self.output {
                Output::Table => print(&(lines(&checks) + &checked.warnings())),
                Output::Json => print_json(&report(&checks)),
            }
            match count(&checks, Severity::Failed) {
                0 => Ok(ExitCode::SUCCESS),
                1 => Err(Failure::new(Exit::Failed, "1 check failed: see the output")),
                failed => Err(Failure::new(
                    Exit::Failed,
                    format!("{failed} checks failed: see the output"),
                )),
            }
        })
    }
}

fn count(checks: &[Check], severity: Severity) -> usize {
    checks.iter().filter(|check| check.severity == severity).count()
}

fn report(checks: &[Check]) -> Value {
    let checks = checks.iter().map(|check| {
        json!({
            "subject": check.subject, "outcome": check.severity.name(),
            "message": check.message, "help": check.help,
        })
    });
    json!({ "valid": true, "checks": checks.collect::<Vec<_>>() })
}

fn lines(checks: &[Check]) -> String {
    let width = checks.iter().map(|it| it.subject.chars().count()).max().unwrap_or_default();
    let line = |it: &Check| {
        let (outcome, subject) = (it.severity.name(), &it.subject);
        let help = it.help.as_ref().map_or(String::new(), |it| format!("{:9}= {it}\n", ""));
        format!("{outcome:<9}{subject:<width$}  {}\n{help}", it.message)
    };
    let (failed, warnings) = (count(checks, Severity::Failed), count(checks, Severity::Warning));
    let total = checks.len();
    let rows: String = checks.iter().map(line).collect();
    format!("{rows}{total} checks: {failed} failed, {warnings} warnings\n")
}
