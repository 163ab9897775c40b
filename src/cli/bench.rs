//! `slateberg bench`: drives any Iceberg REST catalog and prints what it sees.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{fail, print, runtime};
use crate::base::clock::{Clock, SystemClock};
use crate::bench::report::{Row, table_head};
use crate::bench::scenarios::{self, Outcome};
use crate::bench::target::Target;

/// Measure an Iceberg REST catalog.
#[derive(Debug, Args)]
pub struct Bench {
    /// URL of the catalog, as clients are given it
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8181")]
    uri: String,
    /// Warehouse to ask for
    #[arg(long, value_name = "NAME")]
    warehouse: Option<String>,
    /// Bearer token to send
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Name of the server in the report
    #[arg(long, value_name = "NAME", default_value = "slateberg")]
    name: String,
    /// Process of the server, to measure its CPU time and memory
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// What to measure; everything if none is named
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// Requests of each operation
    #[arg(long, default_value_t = 1000)]
    iterations: u64,
    /// Seconds of each throughput measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Clients at once, for throughput
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    clients: Vec<usize>,
    /// Snapshots of the table that is loaded
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    snapshots: Vec<u64>,
    /// File that gets the results as lines of JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Each operation of a catalog, by one client
    Operations,
    /// Reads of one table, by many clients
    LoadTable,
    /// Commits, by many clients on tables of their own
    Commit,
    /// Commits, by many clients on one table
    CommitOne,
}

impl Bench {
    /// Measures, prints rows as they come, and fails if the server does.
    pub fn run(self) -> ExitCode {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return fail(1, error),
        };
        match runtime.block_on(self.measure()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, error),
        }
    }

    async fn measure(&self) -> Result<(), Box<dyn std::error::Error>> {
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let warehouse = self.warehouse.as_deref();
        let target =
            Target::discover(&self.name, &self.uri, warehouse, authorization, self.pid).await?;
        let mut json = self.json.as_ref().map(File::create).transpose()?;
        let mut written = Ok(());
        let mut done = |outcome: Outcome| {
            let Outcome { scenario, clients, measured } = &outcome;
            let row = Row { server: &self.name, scenario, clients: *clients, measured };
            print(&row.table_line());
            if let (Some(file), Ok(())) = (&mut json, &written) {
                written = file.write_all(row.json_line().as_bytes());
            }
        };
        print(&table_head());
        // A name of its own for each run, so that runs do not meet.
        let run = SystemClock.now_ms().to_string();
        let time = Duration::from_secs(self.seconds);
        let wanted = |it| self.scenario.is_empty() || self.scenario.contains(&it);
        if wanted(Scenario::Operations) {
            scenarios::operations(&target, &run, self.iterations, &mut done).await?;
        }
        for &snapshots in self.snapshots.iter().filter(|_| wanted(Scenario::LoadTable)) {
            let clients = &self.clients;
            scenarios::load_table(&target, &run, snapshots, clients, time, &mut done).await?;
        }
        for (scenario, one) in [(Scenario::Commit, false), (Scenario::CommitOne, true)] {
            if wanted(scenario) {
                scenarios::commits(&target, &run, one, &self.clients, time, &mut done).await?;
            }
        }
        Ok(written?)
    }
}
