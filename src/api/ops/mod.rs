//! What an operator asks of a server.

pub mod health;
pub mod metrics;
