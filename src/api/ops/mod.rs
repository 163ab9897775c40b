//! What an operator asks of a server.

pub mod about;
pub mod health;
pub mod metrics;
