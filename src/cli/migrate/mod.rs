//! `slateberg migrate`: registers the tables and views of another catalog with a running server. No
//! file is copied or written: tables keep their locations, and the other catalog is only read.
//!
//! A **source** (`source`) lists namespaces, then tables and views with the locations of their
//! metadata files. The **migration** (`migration`) creates the namespaces, registers the tables and
//! views concurrently, and counts the outcomes. It can be repeated, because it skips tables and
//! views that exist with the same UUID.

mod arguments;
mod error;
mod listing;
mod locations;
mod migration;
mod responses;
mod rest;
mod source;
mod source_objects;
#[cfg(feature = "sql-migration")]
mod sql;

use std::io::{Write, stderr};
use std::process::ExitCode;

use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{Output, grouped, print_json, table};
use super::progress::progress;
use super::runtime::runtime;
pub use arguments::Migrate;
use migration::{Summary, Tally};

impl Migrate {
    /// Runs the migration and prints a summary. Fails unless the catalog has all objects of the
    /// source.
    pub fn run(self) -> Outcome {
        let summary = runtime()?.block_on(migration::migrate(&self, &progress()))?;
        // Print the summary even if standard error is closed.
        let _ = stderr().write_all(summary.line().as_bytes());
        match self.connection.output {
            Output::Json => print_json(&summary.report()),
            Output::Table => print(&summary_table(&summary)),
        }
        if summary.is_complete() {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new(Exit::Failed, "the migration is incomplete: see the output"))
        }
    }
}

fn summary_table(summary: &Summary) -> String {
    let row = |what: &str, tally: &Tally| {
        let Tally { done, present, conflicts, failed } = tally;
        [
            what.to_owned(),
            grouped(*done as u64),
            grouped(*present as u64),
            grouped(*conflicts as u64),
            grouped(*failed as u64),
        ]
    };
    let rows = [
        row("namespaces", &summary.namespaces),
        row("tables", &summary.tables),
        row("views", &summary.views),
    ];
    let head = if summary.dry_run { "WOULD BE NEW" } else { "NEW" };
    let text = table(["", head, "EXISTING", "CONFLICTS", "FAILED"], &rows);
    let notes: String = summary.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{notes}{text}")
}
