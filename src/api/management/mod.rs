//! `/management/v1`: operations that the Iceberg REST specification does not define.

pub mod api_keys;
pub mod checkpoints;
pub mod cluster;
pub mod cursors;
pub mod dropped;
pub mod encryption;
pub mod explain;
pub mod functions;
pub mod grants;
pub mod history;
pub mod jobs;
pub mod labels;
pub mod manifests;
pub mod metrics_reports;
pub mod openapi;
pub mod past;
pub mod policies;
pub mod protections;
pub mod recursive_drop;
pub mod scans;
pub mod search;
pub mod server;
pub mod snapshots;
pub mod table_health;
pub mod table_usage;
pub mod warehouses;
pub mod watch;
pub mod webhooks;
pub mod whoami;

use crate::api::error::ApiError;

/// The result of a handler.
pub(super) type Result<T> = std::result::Result<T, ApiError>;
