//! `slateberg-bench serve`: the server on a slow bucket, or in memory.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::latency::{memory_opener, slow_opener};
use crate::stalls::{Stalls, stalling_opener};
use slateberg::cli::{exit_code, serve};
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

/// Serve the catalog from a slow bucket, or from one in memory.
#[derive(Debug, Args)]
pub(super) struct ServeCommand {
    #[command(flatten)]
    serve: serve::Serve,
    /// Milliseconds to add to each request to the object store
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Percentage of the puts to the object store that stall
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    stall_percent: u8,
    /// Milliseconds for which these puts stall
    #[arg(long, default_value_t = 500)]
    stall_ms: u64,
    /// Stall after a put is executed, instead of before
    #[arg(long)]
    stall_response: bool,
    /// Keep everything in memory
    #[arg(long)]
    memory: bool,
}

impl ServeCommand {
    /// Serves until a signal arrives.
    pub(super) fn run(self) -> ExitCode {
        let mut dependencies = Dependencies::default();
        if self.memory {
            dependencies.opener = memory_opener();
        }
        dependencies.opener =
            slow_opener(dependencies.opener, Duration::from_millis(self.latency_ms));
        let stalls = Stalls {
            percent: self.stall_percent,
            duration: Duration::from_millis(self.stall_ms),
            of_response: self.stall_response,
        };
        dependencies.opener = stalling_opener(dependencies.opener, stalls);
        let memory = self.memory;
        exit_code(self.serve.run_with(dependencies, |settings| {
            if memory {
                use_memory_stores(settings);
            }
        }))
    }
}

/// Sets URLs for all data, so that no directory is used.
fn use_memory_stores(settings: &mut Settings) {
    settings.state.url = "memory:///state".to_owned();
    for (name, warehouse) in &mut settings.warehouses {
        warehouse.location = format!("memory:///warehouse/{name}");
    }
}
