//! `slateberg-bench watch`: the figures of the change feed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;

use super::{JsonLines, Outcome, print};
use crate::process::open_files_max;
use crate::target::{Server, Target};
use crate::watch::measure;
use slateberg_base::clock::{Clock, SystemClock};

/// Measure the delay of the change feed, and the memory of its watchers.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// Server to measure: `NAME=URL[,pid=PID][,warehouse=W][,token=T]`. It needs
    /// `server.watchers_max` and `server.watchers_per_principal_max` of at least the number of
    /// watchers. Without the PID, the memory is not measured
    #[arg(long, value_name = "SERVER")]
    server: Server,
    /// Numbers of watchers. With 0, only commits are measured
    #[arg(long, value_delimiter = ',', default_value = "0,1,100,10000")]
    watchers: Vec<usize>,
    /// Number of HTTP/2 connections that the watchers share. By default, each watcher has its own
    /// HTTP/1.1 connection
    #[arg(long)]
    connections: Option<usize>,
    /// Number of commits for each number of watchers
    #[arg(long, default_value_t = 200)]
    commits: u64,
    /// File to append the results to, a line of JSON for each number of watchers
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Number of open files in addition to the watches.
const OTHER_FILES: usize = 64;

impl Watch {
    /// Measures and prints the results.
    pub(super) fn run(self) -> Outcome {
        Runtime::new()?.block_on(async {
            let run = format!("w{}", SystemClock.now_ms());
            let target = Target::discover(&self.server, run).await?;
            let most = self.watchers.iter().max().copied().unwrap_or_default();
            let most = self.connections.unwrap_or(most).min(most);
            if open_files_max().is_some_and(|max| max < most + OTHER_FILES) {
                let least = most + OTHER_FILES;
                print(&format!("Too few open files are allowed: try ulimit -n {least}\n"));
            }
            let mut lines = JsonLines::open(self.json.as_deref())?;
            for watchers in self.watchers {
                let figures = measure(&target, watchers, self.connections, self.commits).await?;
                let line = format!("{}\n", figures.json(&target.name));
                print(&line);
                lines.add(&line);
            }
            lines.close()?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
