//! `slateberg-bench run`: measures servers and compares them.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{JsonLines, Outcome, print};
use crate::plan::Step;
use crate::process::open_files_max;
use crate::report::{Record, summary};
use crate::run;
use crate::scenarios::{Sizes, appends, blind_appends, commits, kv, load_table, operations, scale};
use crate::target::{Server, Target};
use slateberg_base::clock::{Clock, SystemClock};

/// Measure one or more servers in turn, and compare them.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Server to measure: `NAME=URL[+URL][,pid=PID][,warehouse=W][,token=T]`. The others are
    /// compared with the first. With several URLs, the connections use them in turn. With PIDs,
    /// CPU time and memory of these processes and their descendants are measured
    #[arg(long, value_name = "SERVER", required = true)]
    server: Vec<Server>,
    /// Scenarios to measure [default: all except append-blind, cluster-kv and scale]
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// Number of requests of each operation
    #[arg(long, default_value_t = 1000)]
    iterations: u64,
    /// Number of requests of each slow operation
    #[arg(long, default_value_t = 200)]
    slow_iterations: u64,
    /// Number of turns of each server in each step
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Duration of each throughput measurement, in seconds
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Duration of the warm-up before each throughput measurement, in seconds
    #[arg(long, default_value_t = 1.0)]
    warm_up_seconds: f64,
    /// Numbers of concurrent connections, for reads
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,100,200")]
    connections: Vec<usize>,
    /// Numbers of concurrent clients, for commits
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,100,1000")]
    clients: Vec<usize>,
    /// Numbers of snapshots of the tables in the scenario load-table
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000")]
    snapshots: Vec<usize>,
    /// Numbers of snapshots of the tables that the scenario operations loads
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    load_snapshots: Vec<usize>,
    /// Numbers of snapshots of the tables to which the scenario operations appends
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    append_snapshots: Vec<usize>,
    /// Numbers of tables in the catalog at which the scenario scale measures
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,1000000")]
    tables: Vec<usize>,
    /// Number of tables in each listed namespace, in the scenarios operations and scale
    #[arg(long, default_value_t = 1000)]
    page: usize,
    /// Number of namespaces that the scenario kv updates and loads
    #[arg(long, default_value_t = 1000)]
    keys: usize,
    /// Number of columns of each table
    #[arg(long, default_value_t = 30)]
    columns: usize,
    /// Compare reads with a bare handler that returns the same bytes as the first server
    #[arg(long)]
    bare: bool,
    /// Number of threads of the load generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// File to append the results to, a line of JSON for each round
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A group of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Each operation of a catalog, by one client
    Operations,
    /// Reads of one table, by many clients
    LoadTable,
    /// Commits by many clients, each on a table of its own
    Commit,
    /// Commits of properties, by many clients on one table
    CommitOne,
    /// Appends by many clients on one table. The clients retry after conflicts
    AppendOne,
    /// Appends by many clients on one table, which the server rebases. Needs a warehouse in a
    /// directory on this machine
    AppendBlind,
    /// Puts and gets, as in benchmarks of key-value stores
    Kv,
    /// Puts and gets of all members of a cluster
    ClusterKv,
    /// Reads and commits, while the catalog grows to many tables
    Scale,
}

/// Number of open files in addition to the connections.
const OTHER_FILES: usize = 64;

impl Run {
    /// Measures and prints the results. Fails if a server reported the outcome of a commit
    /// incorrectly.
    pub(super) fn run(self) -> Outcome {
        let runtime = match self.threads {
            1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            threads => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .enable_all()
                .build(),
        };
        let records = runtime?.block_on(self.measure())?;
        if records.iter().any(Record::has_wrong_responses) {
            Err("a server reported a commit wrongly: see lost and untrue_refusals in the results"
                .into())
        } else {
            Ok(ExitCode::SUCCESS)
        }
    }

    async fn measure(&self) -> Result<Vec<Record>, Box<dyn Error>> {
        // Unique names for each run and server.
        let now_ms = SystemClock.now_ms();
        let mut targets = Vec::new();
        for (number, server) in self.server.iter().enumerate() {
            let target = Target::discover(server, format!("b{now_ms}{number}")).await;
            targets.push(target.map_err(|error| format!("{}: {error}", server.name))?);
        }
        let steps = self.steps();
        let connections = steps.iter().map(|step| step.connections).max().unwrap_or_default();
        if open_files_max().is_some_and(|max| max < connections + OTHER_FILES) {
            let least = connections + OTHER_FILES;
            print(&format!("Too few open files are allowed: try ulimit -n {least}\n"));
        }
        let mut lines = JsonLines::open(self.json.as_deref())?;
        let mut done = |record: &Record| {
            print(&record.progress_line());
            lines.add(&record.json_line());
        };
        let (rounds, with_bare) = (self.rounds, self.bare);
        let run = run::Run { targets, rounds, with_bare, done: &mut done };
        let records = run.run_steps(&steps).await;
        print(&summary(&records));
        lines.close()?;
        Ok(records)
    }

    fn steps(&self) -> Vec<Step> {
        let sizes = self.sizes();
        let by_default = |scenario| {
            !matches!(scenario, Scenario::AppendBlind | Scenario::ClusterKv | Scenario::Scale)
        };
        let is_selected = |scenario: &Scenario| match self.scenario.as_slice() {
            [] => by_default(*scenario),
            scenarios => scenarios.contains(scenario),
        };
        let all = Scenario::value_variants().iter().filter(|it| is_selected(it));
        all.flat_map(|scenario| match scenario {
            Scenario::Operations => operations::steps(&sizes),
            Scenario::LoadTable => load_table::steps(&sizes),
            Scenario::Commit => commits::distinct(&sizes),
            Scenario::CommitOne => commits::one(&sizes),
            Scenario::AppendOne => appends::steps(&sizes),
            Scenario::AppendBlind => blind_appends::steps(&sizes),
            Scenario::Kv => kv::steps(&sizes),
            Scenario::ClusterKv => kv::cluster_steps(&sizes),
            Scenario::Scale => scale::steps(&sizes),
        })
        .collect()
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            iterations: self.iterations,
            slow_iterations: self.slow_iterations.min(self.iterations),
            time: Duration::from_secs_f64(self.seconds.max(0.0)),
            warm_up: Duration::from_secs_f64(self.warm_up_seconds.max(0.0)),
            connections: self.connections.clone(),
            clients: self.clients.clone(),
            snapshots: self.snapshots.clone(),
            loaded_snapshots: self.load_snapshots.clone(),
            appended_snapshots: self.append_snapshots.clone(),
            page: self.page.max(1),
            tables: self.tables.clone(),
            keys: self.keys.max(1),
            columns: self.columns,
        }
    }
}
