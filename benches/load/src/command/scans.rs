//! `slateberg-bench scans`: the figures of scan planning.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;

use super::{JsonLines, Outcome, print};
use crate::scans::measure;
use crate::target::{Server, Target};
use slateberg_base::clock::{Clock, SystemClock};

/// Measure scan planning on tables with many files.
#[derive(Debug, Args)]
pub(super) struct Scans {
    /// Server to measure: `NAME=URL[,pid=PID][,warehouse=W][,token=T]`. The directory of its
    /// warehouse must be on this machine. Without the PID, CPU and memory are not measured
    #[arg(long, value_name = "SERVER")]
    server: Server,
    /// Numbers of files, a table for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    files: Vec<u64>,
    /// Number of plans for each filter
    #[arg(long, default_value_t = 100)]
    repeats: u64,
    /// Do not measure commits
    #[arg(long)]
    plans_only: bool,
    /// File to append the results to, a line of JSON for each table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Scans {
    /// Measures and prints the results.
    pub(super) fn run(self) -> Outcome {
        Runtime::new()?.block_on(async {
            let run = format!("s{}", SystemClock.now_ms());
            let target = Target::discover(&self.server, run).await?;
            let mut lines = JsonLines::open(self.json.as_deref())?;
            for files in self.files {
                let figures = measure(&target, files, self.repeats, self.plans_only).await?;
                let line = format!("{figures}\n");
                print(&line);
                lines.add(&line);
            }
            lines.close()?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
