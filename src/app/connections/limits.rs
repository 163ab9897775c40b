//! [`Limits`]: the maximum number of connections of a port, and the timeouts of each connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::deadlines::Timeouts;
use slateberg_base::descriptors;
use slateberg_base::rate::LogThrottle;
use slateberg_config::{Settings, server};
use slateberg_telemetry::connections::{Connections, PortConnections};

/// Maximum size of a request's header, including the request line.
pub(super) const HEADER_BYTES_MAX: usize = 64 << 10;
/// Maximum number of connections of the management port. The port has its own limit, so that
/// clients cannot use up its connections.
const OPERATORS_MAX: usize = 64;
/// Bounds of the derived limit of client connections.
const DERIVED_MIN: u64 = 16;
const DERIVED_MAX: u64 = 4096;
/// Divisor of `memory_bytes_max`. The quotient is the memory that the headers of all connections
/// may use in addition to `memory_bytes_max`.
const MEMORY_DIVISOR: u64 = 2;
/// File descriptors reserved for the store, for files and for requests to other servers. At most
/// half of all file descriptors are reserved.
const RESERVE: u64 = 1024;
/// Number of free file descriptors below which the store is likely to run out of descriptors.
const RESERVE_MIN: u64 = 128;
/// Minimum time between two log lines about waiting connections.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The limits of a port. Clones share one state.
#[derive(Clone)]
pub struct Limits {
    pub(super) timeouts: Timeouts,
    pub(super) counters: Arc<PortConnections>,
    /// Maximum number of concurrent requests of an HTTP/2 connection, if it is not the default. A
    /// member of a cluster forwards the requests of all its clients over one connection.
    pub(super) streams_max: Option<u32>,
    permits: Arc<Semaphore>,
    reports: Arc<LogThrottle>,
}

impl Limits {
    /// Limits of the port for clients.
    pub fn for_clients(settings: &Settings, connections: &Connections) -> Self {
        let limit = descriptors::limit();
        let connections_max =
            client_connections_max(&settings.server, settings.memory_bytes_max, limit);
        let reserved = (connections_max + OPERATORS_MAX) as u64;
        if limit.saturating_sub(reserved) < RESERVE_MIN {
            tracing::warn!(
                connections_max,
                open_files_max = limit,
                "server.connections_max leaves few file descriptors for the store: raise the limit of open files"
            );
        }
        Self::new(&settings.server, connections_max, &connections.clients)
    }

    /// Limits of the port for operators.
    pub fn for_operators(settings: &Settings, connections: &Connections) -> Self {
        Self::new(&settings.server, OPERATORS_MAX, &connections.operators)
    }

    /// Limits of the port for other members of a cluster.
    pub fn for_members(settings: &Settings) -> Self {
        let server = &settings.server;
        let streams_max = server.requests_in_flight_max.saturating_add(server.watchers_max);
        let streams_max = Some(u32::try_from(streams_max).unwrap_or(u32::MAX));
        Self { streams_max, ..Self::new(server, OPERATORS_MAX, &Arc::default()) }
    }

    fn new(
        settings: &server::Settings,
        connections_max: usize,
        counters: &Arc<PortConnections>,
    ) -> Self {
        let connections_max = connections_max.min(Semaphore::MAX_PERMITS);
        counters.limit.set(connections_max as u64);
        Self {
            timeouts: Timeouts::new(settings),
            counters: Arc::clone(counters),
            streams_max: None,
            permits: Arc::new(Semaphore::new(connections_max)),
            reports: Arc::new(LogThrottle::new(REPORT_EVERY)),
        }
    }

    /// Acquires a permit for one more connection. Waits for another connection to end if all
    /// permits are taken. The system's backlog holds new connections until then.
    pub(super) async fn acquire(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return permit;
        }
        self.counters.waits.add(1);
        if self.reports.is_due() {
            tracing::warn!(
                connections_max = self.counters.limit.get(),
                "new connections wait: server.connections_max connections are open"
            );
        }
        Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// Returns the maximum number of client connections for this memory budget and this limit of open
/// files. A budget of 0 means that the budget is unknown.
fn client_connections_max(
    settings: &server::Settings,
    memory_bytes_max: u64,
    open_files_max: u64,
) -> usize {
    if settings.connections_max > 0 {
        return settings.connections_max;
    }
    let reserve = RESERVE.min(open_files_max / 2) + OPERATORS_MAX as u64;
    let by_files = open_files_max.saturating_sub(reserve);
    let by_memory = match memory_bytes_max {
        0 => DERIVED_MAX,
        bytes => bytes / MEMORY_DIVISOR / HEADER_BYTES_MAX as u64,
    };
    by_files.min(by_memory).clamp(DERIVED_MIN, DERIVED_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_limit_leaves_file_descriptors_for_the_store() {
        let settings = server::Settings::default();
        let derived = |limit| client_connections_max(&settings, 1 << 30, limit);
        assert_eq!(derived(1024), 1024 - 512 - OPERATORS_MAX);
        assert_eq!(derived(4096), 4096 - 1024 - OPERATORS_MAX);
        assert_eq!(derived(1 << 20), 4096);
        assert_eq!(derived(u64::MAX), 4096);
        assert_eq!(derived(64), 16);
        let settings = server::Settings { connections_max: 20_000, ..server::Settings::default() };
        assert_eq!(client_connections_max(&settings, 1 << 30, 1024), 20_000);
    }

    #[test]
    fn derived_limit_bounds_the_memory_of_headers() {
        let settings = server::Settings::default();
        assert_eq!(client_connections_max(&settings, 128 << 20, 1 << 20), 1024);
        assert_eq!(client_connections_max(&settings, 1 << 30, 1 << 20), 4096);
        assert_eq!(client_connections_max(&settings, 0, 1 << 20), 4096);
    }
}
