//! Scenarios: groups of steps. Their order ensures that each step finds the data that it needs.

pub mod appends;
pub mod blind_appends;
pub mod commits;
pub mod kv;
pub mod load_table;
pub mod operations;
pub mod scale;

use std::time::Duration;

use super::load::Length;

/// Sizes of the steps.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Number of requests of each operation.
    pub iterations: u64,
    /// Number of requests of each slow operation.
    pub slow_iterations: u64,
    /// Duration of each throughput measurement.
    pub time: Duration,
    /// Duration of the warm-up before each throughput measurement.
    pub warm_up: Duration,
    /// Numbers of connections that load a table.
    pub connections: Vec<usize>,
    /// Numbers of clients that commit.
    pub clients: Vec<usize>,
    /// Snapshots of the table that many connections load.
    pub snapshots: Vec<usize>,
    /// Snapshots of the tables that one client loads.
    pub loaded_snapshots: Vec<usize>,
    /// Snapshots of the tables that one client appends to.
    pub appended_snapshots: Vec<usize>,
    /// Number of tables of the listed namespace, and of each namespace of a growing catalog.
    pub page: usize,
    /// Numbers of tables of the growing catalog.
    pub tables: Vec<usize>,
    /// Number of keys of the key-value steps.
    pub keys: usize,
    /// Number of columns of each table.
    pub columns: usize,
}

/// Maximum number of requests in a warm-up.
const WARM_UP_REQUESTS_MAX: u64 = 100;

impl Sizes {
    /// Returns the length of a step with this number of requests, and of its warm-up.
    fn requests(&self, requests: u64) -> (Length, Length) {
        let warm_up = (requests / 10).clamp(1, WARM_UP_REQUESTS_MAX);
        (Length::Requests(requests), Length::Requests(warm_up))
    }

    /// Returns the length of a timed step, and of its warm-up.
    fn timed(&self) -> (Length, Length) {
        (Length::Time(self.time), Length::Time(self.warm_up))
    }
}
