//! `slateberg migrate`: registers what another catalog has with a running server. No file is copied or
//! written: tables stay where they are, and the other catalog is only read.
//!
//! A **source** (`source`) tells namespaces first, then tables and views with the places of their metadata
//! files. The **work** (`work`) makes the namespaces, registers the rest, several at a time, and counts.
//! What is there already with the same uuid is passed by, so that it can be run again.

mod listing;
mod locations;
mod progress;
mod rest;
mod source;
mod sql;
mod work;

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::client::{ClientError, Connection};
use super::exit::{Exit, Failure, Outcome};
use super::output::{Output, print_json, table};
use super::{key_value, print, runtime};
use crate::base::secret::Secret;
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

/// Register what another catalog has, or a directory, with a running server.
#[derive(Debug, Args)]
pub struct Migrate {
    /// What is read
    #[arg(long, value_enum)]
    from: Kind,
    /// Where it is: the URL of an Iceberg REST catalog in front of /v1; the file of a `SqlCatalog`'s `SQLite`
    /// database; or the URL or directory below which tables lie, or a file with a line for each:
    /// NAMESPACE.TABLE, a tab, and where its metadata file is
    #[arg(long, value_name = "URL|FILE|DIR")]
    source: String,
    /// The warehouse that the REST catalog is asked for
    #[arg(long, value_name = "NAME")]
    source_warehouse: Option<String>,
    /// Token for the REST catalog; others may see it here, not so in [env: `SLATEBERG_SOURCE_TOKEN`]
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    source_token: Option<Secret>,
    /// ID:SECRET that is exchanged for a token [env: `SLATEBERG_SOURCE_CREDENTIAL`]
    #[arg(long, value_name = "ID:SECRET", value_parser = secret, conflicts_with = "source_token")]
    source_credential: Option<Secret>,
    /// Where it is exchanged [default: /v1/oauth/tokens of the REST catalog]
    #[arg(long, value_name = "URL")]
    source_oauth2_server_uri: Option<String>,
    /// The scope that is asked for with it
    #[arg(long, value_name = "SCOPE", default_value = "catalog")]
    source_scope: String,
    /// The name of the catalog in the database [default: the only one]
    #[arg(long, value_name = "NAME")]
    source_catalog: Option<String>,
    /// An option of the object store below which tables lie, such as `aws_endpoint=http://127.0.0.1:9000`
    #[arg(long = "source-option", value_name = "KEY=VALUE", value_parser = key_value)]
    source_options: Vec<(String, String)>,
    /// Namespace that all others go below, its levels divided by dots
    #[arg(long, value_name = "NAMESPACE")]
    below: Option<String>,
    /// The warehouse that everything goes into [default: the server's default one]
    #[arg(long, value_name = "NAME")]
    warehouse: Option<String>,
    /// Tables and views that are under way at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Tell what would be done, and do nothing
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
    /// The `SQLite` database of a `SqlCatalog` of `PyIceberg`, or of a `JdbcCatalog` of Java
    Sql,
    /// Metadata files, as they lie in the directories of tables
    Locations,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl Migrate {
    /// Does it, and says what came of it: exit code 0 if everything is there, 1 if not.
    pub fn run(self) -> Outcome {
        let summary = runtime()?.block_on(work::migrate(&self))?;
        match self.connection.output {
            Output::Json => print_json(&summary.json()),
            Output::Table => print(&told(&summary)),
        }
        match summary.is_complete() {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Failure::new(Exit::Failed, "the migration is incomplete: see the output")),
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
            done.to_string(),
            present.to_string(),
            conflicts.to_string(),
            failed.to_string(),
        ]
    };
    let rows = [
        row("namespaces", &summary.namespaces),
        row("tables", &summary.tables),
        row("views", &summary.views),
    ];
    let head = if summary.dry_run { "WOULD BE NEW" } else { "NEW" };
    let text = table(["", head, "THERE ALREADY", "CONFLICTS", "FAILED"], &rows);
    let notes: String = summary.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{notes}{text}")
}
