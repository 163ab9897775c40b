//! Layer 0: time, ids, secrets, retries, and errors of settings.
//!
//! No other layer reads a clock or generates random numbers or ids, so tests can control all three.

pub mod batch_window;
pub mod clock;
pub mod descriptors;
pub mod error_chain;
pub mod ids;
pub mod io_failure;
pub mod network;
pub mod numbers;
pub mod progress;
pub mod rate;
pub mod retry;
pub mod rfc3339;
pub mod secret;
pub mod setting;
pub mod similar;
pub mod version;
