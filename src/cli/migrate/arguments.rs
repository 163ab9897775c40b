//! The command line of `slateberg migrate`.

use clap::{Args, ValueEnum};

use crate::cli::arguments::key_value;
use crate::cli::client::Connection;
use slateberg_base::secret::Secret;

/// Register the tables and views of another catalog or of a directory with a running server. No
/// file is copied or changed.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Kind of the source
    #[arg(long, value_enum)]
    pub(super) from: Kind,
    /// Location of the source. With --from rest: the URL of the catalog without the trailing /v1.
    /// With --from sql: the `SQLite` file. With --from locations: the URL or directory of the
    /// tables, or a file with one line per table. Each line consists of NAMESPACE.TABLE, a tab and
    /// the location of the metadata file
    #[arg(long, value_name = "URL|FILE|DIR")]
    pub(super) source: String,
    /// Warehouse in the source. Only with --from rest
    #[arg(long, value_name = "NAME")]
    pub(super) source_warehouse: Option<String>,
    /// Token for the source. Visible in the process list: prefer `SLATEBERG_SOURCE_TOKEN`
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    pub(super) source_token: Option<Secret>,
    /// Client ID and secret with which to request a token from the source. Visible in the process
    /// list: prefer `SLATEBERG_SOURCE_CREDENTIAL`
    #[arg(long, value_name = "ID:SECRET", value_parser = secret, conflicts_with = "source_token")]
    pub(super) source_credential: Option<Secret>,
    /// URL from which to request the token [default: /v1/oauth/tokens of the source]
    #[arg(long, value_name = "URL")]
    pub(super) source_oauth2_server_uri: Option<String>,
    /// OAuth scope of the requested token
    #[arg(long, value_name = "SCOPE", default_value = "catalog")]
    pub(super) source_scope: String,
    /// Name of the catalog in the database. Only with --from sql [default: the only catalog in it]
    #[arg(long, value_name = "NAME")]
    pub(super) source_catalog: Option<String>,
    /// Option of the object store of the tables, such as `aws_endpoint=http://127.0.0.1:9000`. Only
    /// with --from sql or locations. Repeatable
    #[arg(long = "source-option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) source_options: Vec<(String, String)>,
    /// Namespace in the target, with dots between its levels. Everything from the source is created
    /// below it
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) below: Option<String>,
    /// Target warehouse [default: the server's default warehouse]
    #[arg(long, value_name = "NAME")]
    pub(super) warehouse: Option<String>,
    /// Number of tables and views to register concurrently
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) concurrency: u16,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// Kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
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
    /// Returns the levels of the namespace below which all objects are created.
    pub(super) fn root(&self) -> Vec<String> {
        let levels = self.below.iter().flat_map(|below| below.split('.'));
        levels.filter(|level| !level.is_empty()).map(str::to_owned).collect()
    }
}
