//! `slateberg-bench serve`: the server on a slow bucket, or in memory.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::latency::{memory_opener, slow_opener};
use slateberg::cli::{end, serve};
use slateberg_config::Settings;
use slateberg_runtime::seams::Seams;

/// Serve the catalog from a slow bucket, or from one in memory.
#[derive(Debug, Args)]
pub(super) struct ServeSlowly {
    #[command(flatten)]
    serve: serve::Serve,
    /// Milliseconds to add to each request to the object store
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Keep everything in memory
    #[arg(long)]
    memory: bool,
}

impl ServeSlowly {
    /// Serves until a signal arrives.
    pub(super) fn run(self) -> ExitCode {
        let mut seams = Seams::default();
        if self.memory {
            seams.opener = memory_opener();
        }
        seams.opener = slow_opener(seams.opener, Duration::from_millis(self.latency_ms));
        let memory = self.memory;
        end(self.serve.run_with(seams, |settings| {
            if memory {
                keep_in_memory(settings);
            }
        }))
    }
}

/// Sets URLs for all data, so that no directory is used.
fn keep_in_memory(settings: &mut Settings) {
    settings.state.url = "memory:///state".to_owned();
    for (name, warehouse) in &mut settings.warehouses {
        warehouse.location = format!("memory:///warehouse/{name}");
    }
}
