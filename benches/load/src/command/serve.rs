//! `slateberg-bench serve`: the server on a slow bucket, or in memory.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::slow_store::{Stalls, slow_opener};
use slateberg::cli::{exit_code, serve};
use slateberg_config::Settings;
use slateberg_objects::location::Location;
use slateberg_objects::open::{OpenError, Opened, Opener};
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
    /// Keep only the state in memory. The load generator can then write files of the warehouses
    #[arg(long, conflicts_with = "memory")]
    memory_state: bool,
}

impl ServeCommand {
    /// Serves until a signal arrives.
    pub(super) fn run(self) -> ExitCode {
        let mut dependencies = Dependencies::default();
        if self.memory || self.memory_state {
            dependencies.opener = memory_opener(dependencies.opener);
        }
        let stalls = Stalls {
            percent: self.stall_percent,
            duration: Duration::from_millis(self.stall_ms),
            of_response: self.stall_response,
        };
        let latency = Duration::from_millis(self.latency_ms);
        dependencies.opener = slow_opener(dependencies.opener, latency, stalls);
        let (memory, memory_state) = (self.memory, self.memory_state);
        exit_code(self.serve.run_with(dependencies, |settings| {
            if memory || memory_state {
                settings.state.url = "memory:///state".to_owned();
            }
            if memory {
                use_memory_warehouses(settings);
            }
        }))
    }
}

fn use_memory_warehouses(settings: &mut Settings) {
    for (name, warehouse) in &mut settings.warehouses {
        warehouse.location = format!("memory:///warehouse/{name}");
    }
}

/// Opens URLs of memory in one bucket.
fn memory_opener(inner: Opener) -> Opener {
    let bucket: Arc<InMemory> = Arc::new(InMemory::new());
    Arc::new(move |url, options| {
        if !url.starts_with("memory:") {
            return inner(url, options);
        }
        let wrong = |reason: String| OpenError::new(url, reason);
        let location = Location::parse(url).map_err(|error| wrong(error.to_string()))?;
        let path = Path::parse(location.path()).map_err(|error| wrong(error.to_string()))?;
        let object_store: Arc<InMemory> = Arc::clone(&bucket);
        let (conditional_update, directory, is_remote) = (true, None, false);
        Ok(Opened { object_store, path, conditional_update, directory, is_remote })
    })
}
