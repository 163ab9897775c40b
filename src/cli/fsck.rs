//! `slateberg fsck`: checks all files and records of a catalog. The exit code is 0 if all of them
//! are sound, and 65 if some are damaged.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::arguments::Common;
use super::clone::describe_origin;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use super::progress::progress;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::fsck::{FsckReport, fsck};

/// Check all files and records of a catalog for damage. Writes nothing. The server must be stopped.
#[derive(Debug, Args)]
pub struct Fsck {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Fsck {
    /// Checks the catalog and prints the findings.
    pub fn run(self) -> Outcome {
        self.common.run_offline(async |settings| {
            let report = fsck(settings, &Dependencies::default(), &progress()).await?;
            match self.output {
                Output::Table => print(&text(&report)),
                Output::Json => print_json(&report_json(&report)),
            }
            if report.is_sound() {
                Ok(ExitCode::SUCCESS)
            } else {
                Err(Failure::new(Exit::Damaged, "the catalog is damaged: see the output"))
            }
        })
    }
}

fn text(report: &FsckReport) -> String {
    let mut lines = vec![format!("checked {}", report.state_url)];
    lines.extend(
        report.clone_of.as_ref().map(|clone| format!("a clone {}", describe_origin(clone))),
    );
    if report.is_unlocked {
        lines.push("checked without a lock: the directory is not writable".to_owned());
    }
    lines.extend(report.findings().iter().map(|finding| format!("broken: {finding}")));
    lines.push(report.summary());
    lines.join("\n") + "\n"
}

fn report_json(report: &FsckReport) -> serde_json::Value {
    let records = report.records.as_ref();
    json!({
        "state": report.state_url,
        "clone-of": report.clone_of.as_ref().map(|clone| &clone.parent_url),
        "locked": !report.is_unlocked,
        "files": report.files,
        "damaged-files": report.damaged_files,
        "records": records.map(|report| report.records),
        "namespaces": records.map(|report| report.namespaces),
        "tables": records.map(|report| report.tables),
        "views": records.map(|report| report.views),
        "functions": records.map(|report| report.functions),
        "broken": report.findings(),
    })
}
