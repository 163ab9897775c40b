//! `slateberg-bench`: a load generator for any Iceberg REST catalog. It needs only the catalog's
//! URL.
//!
//! - A **target** is a server under load.
//! - A **caller** is one client: it sends its next request after the response to its last request.
//!   Callers have persistent connections of their own, or share connections and take turns.
//! - A **step** is a measurement with one number of clients. A **scenario** is a group of steps.
//! - A **round** is one turn of a server in a step. Its result is a **record**.
//!
//! A [`run::Run`] executes the steps in order. In each step, it prepares all servers, warms them up
//! and lets them take turns, so that all run under the same conditions. The result is a
//! [`load::Measured`]: latencies of all requests, failures, and, if the server's processes are
//! known, their CPU time and memory.
//!
//! Two limits are measured as well: [`bare_read`] responds with bytes in memory, and [`bare_put`]
//! writes bytes to an object store. No catalog reads or commits faster. [`slow_store`] slows
//! down an object store.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

pub mod append;
pub mod bare_put;
pub mod bare_read;
pub mod blind_append;
pub mod bodies;
pub mod command;
pub mod connection;
pub mod load;
pub mod plan;
pub mod prepare;
pub mod process;
pub mod report;
pub mod run;
pub mod scans;
pub mod scenarios;
pub mod slow_store;
pub mod target;
pub mod watch;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    command::Bench::parse().run().unwrap_or_else(|error| {
        // The exit code remains if standard error is closed.
        let _ = writeln!(std::io::stderr(), "slateberg-bench: {error}");
        ExitCode::FAILURE
    })
}
