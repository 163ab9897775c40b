//! The scenarios: which steps they have, in an order in which each finds what it needs.

pub mod appends;
pub mod commits;
pub mod kv;
pub mod load_table;
pub mod operations;
pub mod scale;

use std::time::Duration;

use super::load::Length;

/// How much is done.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Requests of each operation.
    pub iterations: u64,
    /// Requests of each operation that takes long.
    pub slow_iterations: u64,
    /// Time of each throughput measurement.
    pub time: Duration,
    /// Time before it.
    pub warm_up: Duration,
    /// Connections that load a table.
    pub connections: Vec<usize>,
    /// Clients that commit.
    pub clients: Vec<usize>,
    /// Snapshots of the table that many connections load.
    pub snapshots: Vec<usize>,
    /// Snapshots of the tables that one client loads.
    pub loaded_snapshots: Vec<usize>,
    /// Snapshots of the tables that one client appends to.
    pub appended_snapshots: Vec<usize>,
    /// Tables of the namespace that is listed, and of each namespace of a growing catalog.
    pub page: usize,
    /// Tables of the catalog as it grows.
    pub tables: Vec<usize>,
    /// Keys that are written and read like those of a key-value store.
    pub keys: usize,
    /// Columns of each table.
    pub columns: usize,
}

/// Requests that warm an operation up.
const WARM_UP_REQUESTS_MAX: u64 = 100;

impl Sizes {
    /// So many requests, and fewer to warm up.
    fn requests(&self, requests: u64) -> (Length, Length) {
        let warm_up = (requests / 10).clamp(1, WARM_UP_REQUESTS_MAX);
        (Length::Requests(requests), Length::Requests(warm_up))
    }

    /// So much time, and less to warm up.
    fn timed(&self) -> (Length, Length) {
        (Length::Time(self.time), Length::Time(self.warm_up))
    }
}
