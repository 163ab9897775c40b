//! Endpoints for operators.

pub mod health;
pub mod metrics;
pub mod root;
