//! The command line: the load generator, the limits that it compares with, and servers on slow
//! buckets.

mod limits;
mod run;
mod scans;
mod serve;
mod watch;

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The exit code of a subcommand, or the reason of its failure.
type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Measure Iceberg REST catalogs.
#[derive(Debug, Parser)]
#[command(name = "slateberg-bench", version, about)]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure one or more servers in turn, and compare them
    Run(Box<run::Run>),
    /// Respond to every GET with the response of another URL. No catalog reads faster than this
    BareRead(limits::BareRead),
    /// Put objects of one size, one after the other. No catalog commits faster than this
    BarePut(limits::BarePut),
    /// Measure the delay of the change feed, and the memory of its watchers
    Watch(watch::Watch),
    /// Measure scan planning on tables with many files
    Scans(scans::Scans),
    /// Serve the catalog from a slow bucket, or from memory
    Serve(serve::ServeCommand),
}

impl Bench {
    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// Errors if a measurement fails, or if a server reported the outcome of a commit incorrectly.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Run(run) => run.run(),
            Command::BareRead(bare) => bare.run(),
            Command::BarePut(bare) => bare.run(),
            Command::Watch(watch) => watch.run(),
            Command::Scans(scans) => scans.run(),
            Command::Serve(serve) => Ok(serve.run()),
        }
    }
}

/// Prints on standard output. A closed pipe is not an error.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// An optional file to which lines are appended, and the first error that occurred in a write to
/// the file.
struct JsonLines {
    file: Option<File>,
    error: Option<std::io::Error>,
}

impl JsonLines {
    fn open(path: Option<&Path>) -> std::io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: path.map(open).transpose()?, error: None })
    }

    fn add(&mut self, line: &str) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.write_all(line.as_bytes())) {
            self.error.get_or_insert(error);
        }
    }

    fn close(self) -> std::io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}
