//! Rank 9: the command line, one file for each subcommand.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use exit::{Exit, Failure, Outcome};
use output::{GLOBAL, OUTPUT_HELP, Output};
use slateberg_config::{Error as ConfigError, Settings, Sources, load};
use slateberg_store::fsck::Report;

mod accept_loss;
mod change;
mod checked;
pub mod checkpoint;
mod client;
pub mod clone;
pub mod completions;
pub mod config;
pub mod doctor;
mod duration;
pub mod encryption;
pub mod exit;
pub mod fsck;
pub mod grant;
mod help;
pub mod job;
pub mod key;
pub mod ls;
pub mod migrate;
mod output;
pub mod policy;
mod progress;
pub mod restore;
pub mod serve;
pub mod store;
pub mod table;
pub mod transfer;
pub mod warehouse;

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
    /// Check every record of a catalog for damage, while no server uses it
    Fsck(fsck::Fsck),
    /// Validate or print the effective settings
    Config(config::Config),
    /// Test buckets, KMS, issuers, clocks, ports and files of a configuration
    Doctor(doctor::Doctor),
    /// Create, list and delete checkpoints
    Checkpoint(checkpoint::Checkpoint),
    /// Restore the catalog to a checkpoint
    Restore(restore::Restore),
    /// Clone the catalog without copying it, to try something out
    Clone(clone::Clone),
    /// Write the catalog to a file of JSON lines
    Export(transfer::Export),
    /// Read an export into an empty catalog, while no server uses it
    Import(transfer::Import),
    /// Register the tables and views of another catalog, or of a directory
    Migrate(Box<migrate::Migrate>),
    /// Test whether an object store honors conditional writes
    Store(store::Store),
    /// List namespaces, tables and views
    Ls(ls::Ls),
    /// Show a table: size, snapshots, schema and last write
    Table(table::Table),
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

/// The location of the settings and of the data.
#[derive(Debug, Args)]
pub struct Common {
    /// Directory for the state and the default warehouse [default: slateberg-data]
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    data_dir: Option<PathBuf>,
    /// Settings file (TOML) [default: every config/*.toml except examples]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,
}

impl Common {
    fn sources(&self) -> Sources {
        Sources { config: self.config.clone() }
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = load(&self.sources())?;
        self.change(&mut settings);
        Ok(settings)
    }

    fn change(&self, settings: &mut Settings) {
        if let Some(data_dir) = &self.data_dir {
            settings.data_dir.clone_from(data_dir);
        }
    }

    /// Runs work that needs the settings and no server.
    fn work<E: Into<Failure>>(
        &self,
        work: impl AsyncFnOnce(&Settings) -> Result<ExitCode, E>,
    ) -> Outcome {
        let settings = self.settings()?;
        runtime()?.block_on(work(&settings)).map_err(Into::into)
    }
}

/// Takes `KEY=VALUE` apart.
fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = split.ok_or_else(|| format!("expected KEY=VALUE, got '{text}'"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs the program with these arguments and returns its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match help::parse(&arguments) {
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
            // The exit code remains if the standard streams are closed.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// Reports a failure on standard error and returns the exit code, for programs that run a subcommand.
pub fn end(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report(Output::Table))
}

/// Whether a command line that cannot be parsed asks for JSON.
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
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
            Command::Ls(ls) => ls.run(),
            Command::Table(table) => table.run(),
        }
    }
}

/// Prints on standard output; a reader that has gone away is no failure.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the outcome of a subcommand that has checked the records and printed the findings.
fn walked(report: &Report) -> Outcome {
    match report.broken.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::new(Exit::Damaged, "1 record is damaged: see the output")),
        count => {
            Err(Failure::new(Exit::Damaged, format!("{count} records are damaged: see the output")))
        }
    }
}

/// Sends requests to a running server and prints the result.
fn ask_server(asking: impl Future<Output = Result<String, client::ClientError>>) -> Outcome {
    print(&runtime()?.block_on(asking)?);
    Ok(ExitCode::SUCCESS)
}

/// Threads for calls that block, which are nearly all calls to local files. Each keeps a heap of
/// its own: with Tokio's limit of 512, a hundred writers to a local directory leave 190 threads
/// with 100 MiB behind.
const BLOCKING_THREADS_MAX: usize = 32;
/// Time for which an idle thread waits for its next call. Each that ends gives its heap back.
const BLOCKING_THREAD_IDLE_MAX: Duration = Duration::from_secs(2);

/// A runtime for a subcommand.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREAD_IDLE_MAX)
        .build()
}
