//! Rank 8 (`docs/architecture.md`): the server. HTTP routes of an open catalog, connections with
//! and without TLS, and graceful shutdown.

pub mod banner;
pub mod check;
pub mod cloud_events;
pub mod cluster;
pub mod connections;
pub mod doctor;
mod idle;
mod routes;
pub mod run;
pub mod stop_signals;
pub mod tls;
pub mod webhooks;

pub use routes::{App, COMMIT};
