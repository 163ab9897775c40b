//! The paths of probes and metrics.

/// Every member of a cluster responds to these paths itself. Requests to them are exempt from
/// admission, and the access log omits them if they succeed.
pub const PROBES: [&str; 3] = [HEALTH, READY, METRICS];
/// Whether the process responds.
pub const HEALTH: &str = "/health";
/// Whether the server accepts requests.
pub const READY: &str = "/ready";
/// The metrics. By default, Prometheus scrapes them without a credential.
pub const METRICS: &str = "/metrics";
