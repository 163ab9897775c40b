//! Rank 0 (`docs/architecture.md`): request and response bodies of `/management/v1`.
//!
//! The server and the command line share these types, so a field cannot be renamed in only one of
//! them. The schemas of the OpenAPI document are derived from these types. The descriptions in the
//! document are the doc comments of the types. The server rejects unknown fields in requests.
//! Clients ignore unknown fields in responses, so that they can talk to a newer server.

pub mod api_keys;
pub mod checkpoints;
pub mod cluster;
pub mod cursors;
pub mod decisions;
pub mod dropped;
pub mod encryption;
pub mod error;
pub mod functions;
mod grant;
pub mod grants;
pub mod history;
pub mod identity;
pub mod jobs;
pub mod labels;
pub mod manifests;
pub mod namespaces;
pub mod openapi;
pub mod past;
pub mod policies;
pub mod protections;
pub mod scans;
pub mod search;
pub mod snapshots;
mod string_enum;
pub mod tables;
pub mod warehouses;
pub mod watch;
pub mod webhooks;

/// String properties by name.
pub type Properties = std::collections::BTreeMap<String, String>;
