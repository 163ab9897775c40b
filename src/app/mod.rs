//! Rank 8: the server: routes before an open catalog, connections with TLS or without, and a stop in order.

pub mod banner;
pub mod check;
pub mod connections;
pub mod doctor;
mod routes;
pub mod run;
pub mod stop_signals;
pub mod tls;

pub use routes::{App, COMMIT};
