//! `slateberg policy validate`: validates policy files against the schema.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::error::Error;
use crate::cli::output::print;
use crate::cli::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::problem::Problem;
use slateberg_runtime::policies::{build, read};

/// Validate policy files against the schema.
#[derive(Debug, Args)]
pub(super) struct Validate {
    /// Policy files or directories, validated as one set
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Treat warnings as errors. A policy that never matches causes a warning
    #[arg(long)]
    deny_warnings: bool,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Validate {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let files = read(&self.paths)?;
        let checked = build(&files, &[]);
        match self.output {
            Output::Table => print(&text(&checked, files.len())),
            Output::Json => print_json(&as_json(&checked)),
        }
        let valid = match &checked {
            Ok(policies) => policies.warnings().is_empty() || !self.deny_warnings,
            Err(_) => false,
        };
        Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn text(checked: &Result<PolicySet, Vec<Problem>>, files: usize) -> String {
    let lines = |label: &str, problems: &[Problem]| -> String {
        problems.iter().map(|problem| format!("{label}: {problem}\n")).collect()
    };
    match checked {
        Ok(policies) => format!(
            "{}valid: {} policies and {} templates in {files} files, revision {}\n",
            lines("warning", policies.warnings()),
            policies.len(),
            policies.templates(),
            policies.revision(),
        ),
        Err(problems) => {
            format!("{}not valid: {} problems\n", lines("error", problems), problems.len())
        }
    }
}

fn as_json(checked: &Result<PolicySet, Vec<Problem>>) -> Value {
    let list = |problems: &[Problem]| -> Vec<Value> {
        let one = |problem: &Problem| {
            let Problem { file, line, column, message } = problem;
            json!({ "file": file, "line": line, "column": column, "message": message })
        };
        problems.iter().map(one).collect()
    };
    match checked {
        Ok(policies) => json!({
            "valid": true,
            "policies": policies.len(),
            "templates": policies.templates(),
            "revision": policies.revision().to_string(),
            "errors": [],
            "warnings": list(policies.warnings()),
        }),
        Err(problems) => json!({ "valid": false, "errors": list(problems), "warnings": [] }),
    }
}
