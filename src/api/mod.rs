//! Rank 7 (`docs/architecture.md`): HTTP. Status codes, headers, paths and the shapes of bodies
//! occur only here.
//!
//! A handler extracts its input, calls the catalog, and renders the response. All routes are in
//! [`router`], all errors in [`error`], and all shapes of bodies in [`wire`], under the names that
//! the specification gives them.

pub mod access_log;
pub mod admission;
pub mod authenticate;
pub mod body_drain;
pub mod cluster;
pub mod coding;
pub mod cors;
pub mod cross_origin;
pub mod delegation;
pub mod encoded_events;
pub mod endpoints;
pub mod error;
pub mod etag;
pub mod extract;
pub mod frame;
pub mod host;
pub mod iceberg;
pub mod management;
pub mod oauth;
pub mod observe;
pub mod ops;
pub mod peer;
pub mod probes;
pub mod rate_limits;
pub mod rejection_log;
pub mod request_id;
pub mod respond;
pub mod response_cache;
pub mod route;
pub mod route_index;
pub mod router;
pub mod scan_files;
pub mod scan_planning_mode;
pub mod service;
pub mod shutdown;
pub mod state;
pub mod watchers;
pub mod webhooks;
pub mod wire;
