//! Rank 0 (`docs/architecture.md`): time, ids, secrets, retries, and errors of settings.
//!
//! No other crate reads the time of day, or generates random numbers or ids, so tests can control all
//! three. Durations are measured with Tokio's `Instant`, which tests can pause.

pub mod background;
pub mod batch_window;
pub mod clock;
pub mod descriptors;
pub mod error_chain;
pub mod hex;
pub mod host;
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
pub mod slots;
pub mod uncancelled;
pub mod uptime;
pub mod version;
pub mod write_interval;
pub mod writeback;

/// Makes an `async fn` return a boxed future, so that the state machine of the function is compiled
/// once. Without the box, every codegen unit that awaits the function compiles its own copy of this
/// state machine and of all state machines inside it. Used for the public functions of a layer (ADR
/// 0023).
pub use async_recursion::async_recursion as boxed;
