//! Rank 0: what everything else asks for the time, for names, for secrets and for patience.
//!
//! Nobody outside this room reads a clock, draws randomness or mints an id, so that a test can hold
//! all three still.

pub mod clock;
pub mod descriptors;
pub mod error_chain;
pub mod ids;
pub mod io_failure;
pub mod network;
pub mod pace;
pub mod progress;
pub mod rate;
pub mod retry;
pub mod rfc3339;
pub mod secret;
pub mod similar;
pub mod version;
