//! `slateberg policy test`: compares the decisions of policy files with expected decisions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::error::Error;
use crate::cli::output::print;
use crate::cli::output::{GLOBAL, OUTPUT_HELP, Output, print_json, table};
use slateberg_authz::expectations::{Expectations, Outcome, Verdict};
use slateberg_runtime::policies::{self, build, read};

/// Test policy files against expected decisions.
#[derive(Debug, Args)]
pub(super) struct Test {
    /// Files with expected decisions, in TOML
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Policy files or directories to test, instead of those listed in each FILE
    #[arg(long, value_name = "PATH")]
    policies: Vec<PathBuf>,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Test {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let mut results = Vec::new();
        for file in &self.files {
            results.push((file, self.outcomes(file)?));
        }
        let passed =
            results.iter().flat_map(|(_, outcomes)| outcomes).all(|outcome| outcome.passed);
        match self.output {
            Output::Table => results.iter().for_each(|(file, all)| print(&text(file, all))),
            Output::Json => {
                let files = results.iter().map(|(file, outcomes)| {
                    json!({ "file": file.display().to_string(), "outcomes": outcomes })
                });
                print_json(&json!({ "passed": passed, "files": files.collect::<Vec<_>>() }));
            }
        }
        Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn outcomes(&self, file: &Path) -> Result<Vec<Outcome>, Error> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| policies::Error::Read(file.into(), error))?;
        let unusable =
            |error: &dyn std::fmt::Display| Error::Expectations(file.into(), error.to_string());
        let expectations: Expectations = toml::from_str(&text).map_err(|error| unusable(&error))?;
        let policies = if self.policies.is_empty() {
            let directory = file.parent().unwrap_or(Path::new(""));
            expectations.policies.iter().map(|path| directory.join(path)).collect()
        } else {
            self.policies.clone()
        };
        let scenario = expectations.scenario().map_err(|error| unusable(&error))?;
        let policies =
            build(&read(&policies)?, scenario.grants()).map_err(policies::Error::Invalid)?;
        scenario.run(&policies).map_err(|error| unusable(&error))
    }
}

fn text(file: &Path, outcomes: &[Outcome]) -> String {
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    let summary = format!(
        "{}: {} decisions, {} as expected, {} not\n",
        file.display(),
        outcomes.len(),
        outcomes.len() - failed.len(),
        failed.len()
    );
    if failed.is_empty() {
        return summary;
    }
    let rows: Vec<_> = failed.into_iter().map(row).collect();
    let headings = ["EXPECT", "PRINCIPAL", "ACTION", "RESOURCE", "EXPECTED", "DECISION", "BY"];
    format!("{summary}{}", table(headings, &rows))
}

fn row(outcome: &Outcome) -> [String; 7] {
    let verdict_name = |verdict| match verdict {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
    };
    let by = |policies: &[String]| {
        if policies.is_empty() { "no policy".to_owned() } else { policies.join(", ") }
    };
    let reads = |reads: Option<&Value>| match reads {
        None => String::new(),
        Some(Value::Bool(_)) => ", reads the whole table".to_owned(),
        Some(rules) => format!(", reads {rules}"),
    };
    let expected = match &outcome.expected_policies {
        Some(policies) => format!("{} by {}", verdict_name(outcome.expected), by(policies)),
        None => verdict_name(outcome.expected).to_owned(),
    };
    let actual_reads = outcome.expected_reads.as_ref().and(outcome.reads.as_ref());
    [
        format!("#{}", outcome.expectation),
        outcome.principal.clone(),
        outcome.action.clone(),
        outcome.resource.clone(),
        expected + &reads(outcome.expected_reads.as_ref()),
        verdict_name(outcome.decision).to_owned() + &reads(actual_reads),
        by(&outcome.policies),
    ]
}
