//! `slateberg migrate`: registers what another catalog has with a running server. No file is copied or
//! written: tables stay where they are, and the other catalog is only read.
//!
//! A **source** (`source`) tells namespaces first, then tables and views with the places of their metadata
//! files. The **work** (`work`) makes the namespaces, registers the rest, several at a time, and counts.
//! What is there already with the same uuid is passed by, so that it can be run again.

mod listing;
mod locations;
mod rest;
mod source;
#[cfg(feature = "sql-migration")]
mod sql;
mod work;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::client::{ClientError, Connection};
use super::exit::{Exit, Failure, Outcome};
use super::output::{Output, grouped, print_json, table};
use super::progress::progress;
use super::{key_value, print, runtime};
use slateberg_base::secret::Secret;
use work::{Summary, Tally};

/// Why nothing could be migrated.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct MigrateError {
    reason: String,
    pub(super) exit: Exit,
}

impl MigrateError {
    fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), exit: Exit::Failed }
    }
}

impl From<ClientError> for MigrateError {
    fn from(error: ClientError) -> Self {
        Self { exit: error.exit(), ..Self::new(error) }
    }
}

/// Register the tables and views of another catalog, or of a directory, with a running server. No file is
/// copied or changed.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Kind of the source
    #[arg(long, value_enum)]
    from: Kind,
    /// Location of the source: for rest, the URL of the catalog in front of /v1; for sql, the `SQLite` file;
    /// for locations, the URL or directory of the tables, or a file with lines of NAMESPACE.TABLE, a tab and
    /// the location of the metadata file
    #[arg(long, value_name = "URL|FILE|DIR")]
    source: String,
    /// Warehouse of the source, for rest
    #[arg(long, value_name = "NAME")]
    source_warehouse: Option<String>,
    /// Token for the source. Visible in the process list: prefer `SLATEBERG_SOURCE_TOKEN`
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    source_token: Option<Secret>,
    /// Client ID and secret for a token of the source. Prefer `SLATEBERG_SOURCE_CREDENTIAL`
    #[arg(long, value_name = "ID:SECRET", value_parser = secret, conflicts_with = "source_token")]
    source_credential: Option<Secret>,
    /// URL of the token endpoint [default: /v1/oauth/tokens of the source]
    #[arg(long, value_name = "URL")]
    source_oauth2_server_uri: Option<String>,
    /// Scope of the token
    #[arg(long, value_name = "SCOPE", default_value = "catalog")]
    source_scope: String,
    /// Name of the catalog in the database, for sql [default: the only one]
    #[arg(long, value_name = "NAME")]
    source_catalog: Option<String>,
    /// Option of the object store of the tables, for locations, such as `aws_endpoint=http://127.0.0.1:9000`.
    /// Repeatable
    #[arg(long = "source-option", value_name = "KEY=VALUE", value_parser = key_value)]
    source_options: Vec<(String, String)>,
    /// Parent namespace for everything in the source, its levels separated by dots
    #[arg(long, value_name = "NAMESPACE")]
    below: Option<String>,
    /// Target warehouse [default: the server's default warehouse]
    #[arg(long, value_name = "NAME")]
    warehouse: Option<String>,
    /// Tables and views to register at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Any Iceberg REST catalog
    Rest,
    /// `SQLite` database of a PyIceberg `SqlCatalog` or a Java `JdbcCatalog`
    Sql,
    /// Metadata files in the directories of tables
    Locations,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl Migrate {
    /// Runs the migration and prints a summary. Fails unless everything is in the catalog.
    pub fn run(self) -> Outcome {
        let summary = runtime()?.block_on(work::migrate(&self, &progress()))?;
        // The summary goes to standard output even if there is no standard error.
        let _ = stderr().write_all(summary.line().as_bytes());
        match self.connection.output {
            Output::Json => print_json(&summary.json()),
            Output::Table => print(&told(&summary)),
        }
        if summary.is_complete() {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new(Exit::Failed, "the migration is incomplete: see the output"))
        }
    }

    /// The namespace that all others go below.
    fn root(&self) -> Vec<String> {
        let levels = self.below.iter().flat_map(|below| below.split('.'));
        levels.filter(|level| !level.is_empty()).map(str::to_owned).collect()
    }
}

fn told(summary: &Summary) -> String {
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
