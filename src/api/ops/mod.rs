//! Endpoints for operators.

pub mod about;
pub mod health;
pub mod metrics;
