//! `slateberg export` and `slateberg import`: the whole catalog as lines of JSON, without secrets.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::output::{Output, print_json};
use super::{Common, print, walked};
use crate::app::build::Seams;
use crate::app::stopped::{StoppedCatalog, StoppedError, Wanted, export_lines};
use crate::catalog::transfer::export::Counts;
use crate::config::Settings;
use crate::store::fsck::Report;

/// Write the catalog as lines of JSON.
#[derive(Debug, Args)]
pub struct Export {
    /// The file to write, which must not be there yet; `-` for standard output
    file: PathBuf,
    /// A checkpoint's name or id, or a time: that state, also while a server runs [default: the state as it
    /// is, while no server runs]
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    checkpoint: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Bring the lines of an export into an empty catalog, while no server runs on it.
#[derive(Debug, Args)]
pub struct Import {
    /// The file that `export` has written
    file: PathBuf,
    /// How it is told
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    common: Common,
}

impl Export {
    /// Writes the lines; says on standard error how many.
    pub fn run(self) -> ExitCode {
        self.common.work(async |settings| {
            let counts = self.write(settings).await?;
            say(&counted("exported", &counts));
            Ok::<_, StoppedError>(ExitCode::SUCCESS)
        })
    }

    async fn write(&self, settings: &Settings) -> Result<Counts, StoppedError> {
        let wanted = self.checkpoint.as_deref().map(Wanted::parse);
        let (seams, wanted) = (Seams::default(), wanted.as_ref());
        if self.file.as_os_str() == "-" {
            let mut out = BufWriter::new(io::stdout());
            return export_lines(settings, &seams, wanted, &mut out).await;
        }
        let shown = self.file.display();
        let failed = |error: io::Error| StoppedError::Refused(format!("{shown}: {error}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&self.file);
        let file = file.map_err(failed)?;
        let written = async {
            let mut out = BufWriter::new(&file);
            let counts = export_lines(settings, &seams, wanted, &mut out).await?;
            drop(out);
            file.sync_all().map_err(failed)?;
            Ok(counts)
        };
        let written = written.await;
        if written.is_err() {
            // A file that holds half of a catalog is of no use, and in the way of the next try.
            std::fs::remove_file(&self.file).map_err(failed)?;
        }
        written
    }
}

impl Import {
    /// Brings the lines in, and says how many there were.
    pub fn run(self) -> ExitCode {
        self.common.work(async |settings| {
            let (counts, report) = import(settings, &self.file).await?;
            Ok::<_, StoppedError>(self.tell(&counts, &report))
        })
    }

    fn tell(&self, counts: &Counts, report: &Report) -> ExitCode {
        match self.output {
            Output::Json => {
                print_json(&json!({ "imported": counts, "broken": report.broken }));
            }
            Output::Table => {
                for broken in &report.broken {
                    print(&format!("broken: {broken}\n"));
                }
                print(&counted("imported", counts));
            }
        }
        walked(report)
    }
}

async fn import(settings: &Settings, file: &Path) -> Result<(Counts, Report), StoppedError> {
    let catalog = StoppedCatalog::open_or_make(settings, &Seams::default()).await?;
    let open = || File::open(file).map(BufReader::new);
    let done = async {
        let counts = catalog.import(open, |lines| say(&format!("{lines} lines\n"))).await?;
        Ok::<_, StoppedError>((counts, catalog.walk().await?))
    };
    let done = done.await;
    let closed = catalog.close().await;
    let done = done?;
    closed.map(|()| done)
}

fn counted(what: &str, counts: &Counts) -> String {
    format!(
        "{what} {} warehouses, {} namespaces, {} tables, {} views, {} policies, {} grants, {} API keys: {} lines\n",
        counts.warehouses,
        counts.namespaces,
        counts.tables,
        counts.views,
        counts.policies,
        counts.grants,
        counts.api_keys,
        counts.lines
    )
}

/// Says something beside the output; nobody is left to tell if standard error is gone.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
