//! Metrics of the connections to both ports: open connections, connections that the server closed
//! (by reason), and connections that it failed to accept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::collection::{Collection, attributes};
use super::counters::Counter;

/// A number that can be set.
#[derive(Debug, Default)]
pub struct GaugeValue(AtomicU64);

impl GaugeValue {
    /// Sets the number.
    pub fn set(&self, level: u64) {
        self.0.store(level, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Connections of both ports.
#[derive(Debug, Default)]
pub struct Connections {
    /// The port for clients.
    pub clients: Arc<PortConnections>,
    /// The port for operators.
    pub operators: Arc<PortConnections>,
}

/// Connections of one port.
#[derive(Debug, Default)]
pub struct PortConnections {
    open: AtomicU64,
    /// Maximum number of open connections; 0 if the server has no such port.
    pub limit: GaugeValue,
    /// New connections that had to wait because the limit was reached.
    pub waits: Counter,
    /// Connections that the operating system failed to accept.
    pub accept_failures: Counter,
    /// Connections closed because the request header did not arrive in time.
    pub closed_header: Counter,
    /// Connections closed because no further request arrived.
    pub closed_idle: Counter,
    /// Connections closed because the client did not read its response.
    pub closed_stalled: Counter,
}

/// Guard of an open connection.
pub struct OpenConnection<'a>(&'a PortConnections);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PortConnections {
    /// Counts an open connection until the guard is dropped.
    pub fn open(&self) -> OpenConnection<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self)
    }

    fn collect(&self, into: &mut Collection, port: &'static str) {
        let of_port = || attributes([("port", port)]);
        let help = "Connections that are open.";
        let open = self.open.load(Ordering::Relaxed) as f64;
        into.gauge("slateberg.connections", "{connection}", help, of_port(), open);
        let help = "Maximum number of open connections.";
        let limit = self.limit.get() as f64;
        into.gauge("slateberg.connections.limit", "{connection}", help, of_port(), limit);
        let help = "New connections that had to wait because the limit was reached.";
        let waits = self.waits.get();
        into.counter("slateberg.connections.waits", "{connection}", help, of_port(), waits);
        let help = "Connections that the server could not accept, mostly because no file descriptor was left.";
        let name = "slateberg.connections.accept.failures";
        into.counter(name, "{failure}", help, of_port(), self.accept_failures.get());
        let help =
            "Connections that the server closed because it waited for their client too long.";
        let closed = [
            ("header", &self.closed_header),
            ("idle", &self.closed_idle),
            ("stalled", &self.closed_stalled),
        ];
        for (reason, counter) in closed {
            let series = attributes([("port", port), ("reason", reason)]);
            let name = "slateberg.connections.closed";
            into.counter(name, "{connection}", help, series, counter.get());
        }
    }
}

impl Connections {
    /// Adds the metrics of all existing ports to the collection.
    pub fn collect(&self, into: &mut Collection) {
        for (port, connections) in [("clients", &self.clients), ("operators", &self.operators)] {
            if connections.limit.get() > 0 {
                connections.collect(into, port);
            }
        }
    }
}
