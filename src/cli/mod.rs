//! Rank 9: the command line, one file for each subcommand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::config::{Error as ConfigError, Settings, Sources, load};
use crate::store::fsck::Report;

pub mod bench;
mod change;
pub mod checkpoint;
mod client;
pub mod clone;
pub mod config;
pub mod encryption;
pub mod fsck;
pub mod grant;
pub mod job;
pub mod key;
pub mod migrate;
mod output;
pub mod policy;
pub mod restore;
pub mod serve;
pub mod store;
pub mod transfer;
pub mod warehouse;

/// An Apache Iceberg REST catalog whose only dependency is a bucket.
#[derive(Debug, Parser)]
#[command(name = "slateberg", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the catalog over HTTP
    Serve(serve::Serve),
    /// Check every record of a catalog, without writing, while no server runs on it
    Fsck(fsck::Fsck),
    /// Check settings, or show those that hold
    Config(config::Config),
    /// Make, list and delete checkpoints: states that the catalog can be taken back to
    Checkpoint(checkpoint::Checkpoint),
    /// Take the catalog back to what a checkpoint has kept, while no server runs on it
    Restore(restore::Restore),
    /// Make a second catalog that begins as a state of this one, without a copy
    Clone(clone::Clone),
    /// Write the catalog as lines of JSON
    Export(transfer::Export),
    /// Bring the lines of an export into an empty catalog, while no server runs on it
    Import(transfer::Import),
    /// Register what another catalog has, or a directory, with a running server
    Migrate(Box<migrate::Migrate>),
    /// Try out whether an object store may be relied on
    Store(store::Store),
    /// Make, list and revoke API keys of a running server
    Key(key::Key),
    /// Make, list, change and delete warehouses of a running server
    Warehouse(warehouse::Warehouse),
    /// List, show, start and cancel background jobs of a running server
    Job(job::Job),
    /// Show, rotate and re-wrap the keys that encrypt what a running server keeps
    Encryption(encryption::Encryption),
    /// Grant something on a warehouse, namespace, table or view
    Grant(grant::Grant),
    /// Take a grant back
    Revoke(grant::Revoke),
    /// List grants
    Grants(grant::Grants),
    /// Check, test and ask policies; list and change those of a running server
    Policy(policy::Policy),
    /// Measure an Iceberg REST catalog, this one or any other
    Bench(bench::Bench),
}

/// Where the settings and the data are.
#[derive(Debug, Args)]
pub struct Common {
    /// Directory for the state and the default warehouse [default: slateberg-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Settings file (TOML) [default: every config/*.toml but the examples]
    #[arg(long, value_name = "FILE")]
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

    /// Does something with the settings and without a server, and says what went wrong.
    fn work<E: std::fmt::Display>(
        &self,
        work: impl AsyncFnOnce(&Settings) -> Result<ExitCode, E>,
    ) -> ExitCode {
        match self.settings() {
            Ok(settings) => {
                block_on(async { work(&settings).await.unwrap_or_else(|error| fail(1, error)) })
            }
            Err(error) => fail(EX_CONFIG, error),
        }
    }
}

/// Takes `KEY=VALUE` apart.
fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = split.ok_or_else(|| format!("expected KEY=VALUE, got '{text}'"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The exit code of wrong settings, as `sysexits.h` has it.
const EX_CONFIG: u8 = 78;

impl Cli {
    /// Runs the subcommand and tells how it ended: 0 well, 1 not, 2 wrong usage, 78 wrong settings.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Fsck(fsck) => fsck.run(),
            Command::Config(config) => config.run(),
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
            Command::Bench(bench) => bench.run(),
        }
    }
}

/// Says on standard error what went wrong.
fn fail(code: u8, error: impl std::fmt::Display) -> ExitCode {
    use std::io::Write;
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "slateberg: {error}");
    ExitCode::from(code)
}

/// Prints on standard output; a reader that has gone away is no failure.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// How a subcommand ends after a walk through the records, whose findings it has told.
fn walked(report: &Report) -> ExitCode {
    match report.broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => fail(1, "the records are broken: see above"),
    }
}

/// Asks a running server, and prints what is to be said of its answer.
fn ask_server(asking: impl Future<Output = Result<String, client::ClientError>>) -> ExitCode {
    block_on(async {
        match asking.await {
            Ok(text) => {
                print(&text);
                ExitCode::SUCCESS
            }
            Err(error) => fail(1, error),
        }
    })
}

/// Runs a subcommand to its end.
fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match runtime() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => fail(1, error),
    }
}

/// Threads for calls that block, which are nearly all calls to local files. Each keeps a heap of
/// its own: with Tokio's limit of 512, a hundred writers to a local directory leave 190 threads
/// with 100 MiB behind.
const BLOCKING_THREADS_MAX: usize = 32;
/// How long such a thread waits for its next call. Each that ends gives its heap back.
const BLOCKING_THREAD_IDLE_MAX: Duration = Duration::from_secs(2);

/// A runtime for a subcommand.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREAD_IDLE_MAX)
        .build()
}
