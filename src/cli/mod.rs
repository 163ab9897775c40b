//! Rank 9 (`docs/architecture.md`): the command line, one file for each subcommand.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{Exit, Failure, Outcome};
use output::{GLOBAL, OUTPUT_HELP, Output};

mod accept_loss;
mod arguments;
mod change;
pub mod checkpoint;
mod client;
pub mod clone;
pub mod cluster;
pub mod completions;
pub mod config;
pub mod cursor;
pub mod doctor;
pub mod dropped;
mod duration;
pub mod encryption;
pub mod exit;
pub mod fsck;
pub mod function;
pub mod grant;
mod help;
pub mod history;
pub mod job;
pub mod key;
pub mod label;
pub mod ls;
pub mod migrate;
pub mod namespace;
mod output;
pub mod plan;
pub mod policy;
mod progress;
pub mod protect;
pub mod restore;
pub mod rollback;
mod runtime;
pub mod search;
pub mod serve;
mod settings_check;
pub mod store;
pub mod table;
pub mod transfer;
pub mod warehouse;
pub mod watch;
pub mod webhook;

/// An Apache Iceberg REST catalog whose only dependency is a bucket.
#[derive(Debug, Parser)]
#[command(name = "slateberg", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[arg(long, global = true, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the catalog over HTTP
    Serve(serve::Serve),
    /// Check all files and records of a catalog for damage. The server must be stopped
    Fsck(fsck::Fsck),
    /// Validate or print the effective settings
    Config(config::Config),
    /// Test buckets, KMS, issuers, clocks, ports and files of a configuration
    Doctor(doctor::Doctor),
    /// Create, list and delete checkpoints
    Checkpoint(checkpoint::Checkpoint),
    /// Restore the catalog to a checkpoint
    Restore(restore::Restore),
    /// Clone the catalog without copying its data, for example to test a change
    Clone(clone::CloneCommand),
    /// Show the members of a cluster, transfer the writer, and pause the cluster
    Cluster(cluster::Cluster),
    /// Write the catalog to a file of JSON lines
    Export(transfer::Export),
    /// Load an exported file into an empty catalog. The server must be stopped
    Import(transfer::Import),
    /// Register the tables and views of another catalog or of a directory
    Migrate(Box<migrate::Migrate>),
    /// Test an object store, or let a server start although its local write-ahead log has lost
    /// changes
    Store(store::Store),
    /// List namespaces, tables, views and functions
    Ls(ls::Ls),
    /// Find tables, views, namespaces and functions by parts of their names
    Search(search::Search),
    /// Show a table: size, snapshots, schema, last write and health
    Table(table::Table),
    /// Create, list, show and drop SQL functions
    Function(function::Function),
    /// Show who changed what and when
    History(history::History),
    /// Print changes as they happen
    Watch(watch::Watch),
    /// List and delete cursors: the positions of `watch --to`
    Cursor(cursor::Cursor),
    /// Create, list, show, suspend, resume, test and delete webhooks
    Webhook(webhook::Webhook),
    /// Roll a table back to an earlier snapshot
    Rollback(rollback::Rollback),
    /// Show which files a scan would read, and what prunes the others
    Plan(plan::Plan),
    /// Drop a namespace, with everything in it if wanted
    Namespace(namespace::Namespace),
    /// Restore a dropped namespace, table or view
    Undrop(dropped::Undrop),
    /// List dropped namespaces, tables and views, or delete them for good
    Dropped(dropped::Dropped),
    /// Protect a warehouse, namespace, table, view or function against drop, purge, unregister and rename
    Protect(protect::Protect),
    /// Lift a protection
    Unprotect(protect::Unprotect),
    /// List the protected resources
    Protected(protect::Protected),
    /// Show, set and remove labels of tables, views and columns
    Label(label::LabelCommand),
    /// Create, list and revoke API keys
    Key(key::Key),
    /// Create, list, show, change and delete warehouses
    Warehouse(warehouse::Warehouse),
    /// List, show, start and cancel background jobs
    Job(job::Job),
    /// Show, rotate and rewrap the keys that encrypt the catalog
    Encryption(encryption::Encryption),
    /// Grant a privilege on a warehouse, namespace, table or view
    Grant(grant::Grant),
    /// Revoke a grant
    Revoke(grant::Revoke),
    /// List grants
    Grants(grant::Grants),
    /// Validate, test, explain, list and change policies
    Policy(policy::Policy),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Write man pages
    Man(completions::Man),
}

/// Runs the program with these arguments and returns its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match parse(&arguments) {
        Ok(cli) => {
            let output = cli.output;
            cli.run().unwrap_or_else(|failure| failure.report(output))
        }
        Err(error) if error.use_stderr() && wants_json(&arguments) => {
            let message = error.render().to_string();
            let message = message.strip_prefix("error: ").unwrap_or(&message).trim_end();
            Failure::new(Exit::Usage, message).report(Output::Json)
        }
        Err(error) => {
            // The standard streams may be closed. The exit code still reports the failure.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// Returns the command line definition with its complete help.
fn definition() -> clap::Command {
    help::with_help(Cli::command())
}

fn parse(arguments: &[OsString]) -> Result<Cli> {
    let matches = definition().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// Reports a failure on standard error and returns the exit code, for programs that run a
/// subcommand.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report(Output::Table))
}

/// Whether a command line that cannot be parsed requests JSON as output.
fn wants_json(arguments: &[OsString]) -> bool {
    let pairs = arguments.windows(2).any(|pair| pair[0] == "--output" && pair[1] == "json");
    pairs || arguments.iter().any(|argument| argument == "--output=json")
}

impl Cli {
    fn run(self) -> Outcome {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Fsck(fsck) => fsck.run(),
            Command::Config(config) => config.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Checkpoint(checkpoint) => checkpoint.run(),
            Command::Restore(restore) => restore.run(),
            Command::Clone(clone) => clone.run(),
            Command::Cluster(cluster) => cluster.run(),
            Command::Export(export) => export.run(),
            Command::Import(import) => import.run(),
            Command::Migrate(migrate) => migrate.run(),
            Command::Store(store) => store.run(),
            Command::Key(key) => key.run(),
            Command::Warehouse(warehouse) => warehouse.run(),
            Command::Job(job) => job.run(),
            Command::Encryption(encryption) => encryption.run(),
            Command::Grant(grant) => grant.run(),
            Command::Revoke(revoke) => revoke.run(),
            Command::Grants(grants) => grants.run(),
            Command::Policy(policy) => policy.run(),
            Command::Completions(completions) => completions.run(definition()),
            Command::Man(man) => man.run(definition()),
            Command::Ls(ls) => ls.run(),
            Command::Search(search) => search.run(),
            Command::Table(table) => table.run(),
            Command::Protect(protect) => protect.run(),
            Command::Unprotect(unprotect) => unprotect.run(),
            Command::Protected(protected) => protected.run(),
            Command::Label(label) => label.run(),
            Command::Function(function) => function.run(),
            Command::History(history) => history.run(),
            Command::Watch(watch) => watch.run(),
            Command::Cursor(cursor) => cursor.run(),
            Command::Webhook(webhook) => webhook.run(),
            Command::Rollback(rollback) => rollback.run(),
            Command::Plan(plan) => plan.run(),
            Command::Namespace(namespace) => namespace.run(),
            Command::Undrop(undrop) => undrop.run(),
            Command::Dropped(dropped) => dropped.run(),
        }
    }
}
