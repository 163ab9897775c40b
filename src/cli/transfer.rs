//! `slateberg export` and `slateberg import`: the whole catalog as JSON lines, without secrets.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::arguments::Common;
use super::exit::Outcome;
use super::exit::walk_outcome;
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, count, print_json};
use super::progress::progress;
use slateberg_base::progress::Progress;
use slateberg_catalog::transfer::export::Counts;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::{OfflineError, OfflineWriter, RestoreTarget, export_lines};
use slateberg_store::fsck::Report;

/// Write the catalog to a file of JSON lines, without secrets.
#[derive(Debug, Args)]
pub struct Export {
    /// File to create, which must not exist. `-` writes to standard output
    file: PathBuf,
    /// Name or ID of the checkpoint to export, or a time, which selects the newest checkpoint up to
    /// that time. A checkpoint can be exported while the server runs. [default: the current state,
    /// which requires a stopped server]
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    checkpoint: Option<String>,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

/// Load an exported file into an empty catalog. The server must be stopped.
#[derive(Debug, Args)]
pub struct Import {
    /// File that `export` has written
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Export {
    /// Writes the lines, and prints the numbers of objects and lines.
    pub fn run(self) -> Outcome {
        self.common.run_offline(async |settings| {
            let counts = self.write(settings).await?;
            match self.output {
                Output::Table => print_stderr(&counts_line("exported", &counts)),
                // Standard output may contain the export itself.
                Output::Json if self.file.as_os_str() == "-" => {
                    print_stderr(&format!("{}\n", json!({ "exported": counts })));
                }
                Output::Json => print_json(&json!({ "exported": counts })),
            }
            Ok::<_, OfflineError>(ExitCode::SUCCESS)
        })
    }

    async fn write(&self, settings: &Settings) -> Result<Counts, OfflineError> {
        let selector = self.checkpoint.as_deref().map(RestoreTarget::parse);
        let (dependencies, selector) = (Dependencies::default(), selector.as_ref());
        if self.file.as_os_str() == "-" {
            let mut out = BufWriter::new(io::stdout());
            // On a terminal, progress lines would be mixed with the exported lines.
            let progress =
                if io::stdout().is_terminal() { Progress::default() } else { progress() };
            return export_lines(settings, &dependencies, selector, &mut out, &progress).await;
        }
        let path = self.file.display();
        let failed = |error: io::Error| OfflineError::Refused(format!("{path}: {error}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&self.file);
        let file = file.map_err(failed)?;
        let written = async {
            let mut out = BufWriter::new(&file);
            let counts =
                export_lines(settings, &dependencies, selector, &mut out, &progress()).await?;
            drop(out);
            file.sync_all().map_err(failed)?;
            Ok(counts)
        };
        let written = written.await;
        if written.is_err() {
            // Delete an incomplete export: it is useless, and a retry would fail because the file
            // exists.
            std::fs::remove_file(&self.file).map_err(failed)?;
        }
        written
    }
}

impl Import {
    /// Imports the lines, and prints the numbers of objects and lines.
    pub fn run(self) -> Outcome {
        self.common.run_offline(async |settings| {
            let (counts, report) = import(settings, &self.file).await?;
            self.report_outcome(&counts, &report)
        })
    }

    fn report_outcome(&self, counts: &Counts, report: &Report) -> Outcome {
        match self.output {
            Output::Json => {
                print_json(&json!({ "imported": counts, "broken": report.broken }));
            }
            Output::Table => {
                for broken in &report.broken {
                    print(&format!("broken: {broken}\n"));
                }
                print(&counts_line("imported", counts));
            }
        }
        walk_outcome(report)
    }
}

async fn import(settings: &Settings, file: &Path) -> Result<(Counts, Report), OfflineError> {
    let progress = progress();
    let opening = progress.phase("opening the store", None);
    let catalog = OfflineWriter::open_or_create(settings, &Dependencies::default()).await?;
    drop(opening);
    let open = || File::open(file).map(BufReader::new);
    let done = async {
        let bytes = file.metadata().ok().map(|metadata| metadata.len());
        let counts = catalog.import(open, bytes, &progress).await?;
        Ok::<_, OfflineError>((counts, catalog.walk(&progress).await?))
    };
    let done = done.await;
    let closed = catalog.close().await;
    let done = done?;
    closed.map(|()| done)
}

fn counts_line(what: &str, counts: &Counts) -> String {
    let parts = [
        count(counts.warehouses, "warehouse", "warehouses"),
        count(counts.namespaces, "namespace", "namespaces"),
        count(counts.tables, "table", "tables"),
        count(counts.views, "view", "views"),
        count(counts.functions, "function", "functions"),
        count(counts.protections, "protection", "protections"),
        count(counts.policies, "policy", "policies"),
        count(counts.grants, "grant", "grants"),
        count(counts.api_keys, "API key", "API keys"),
    ];
    format!("{what} {}: {}\n", parts.join(", "), count(counts.lines, "line", "lines"))
}

/// Writes to standard error, which may be closed.
fn print_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
