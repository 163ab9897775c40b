//! Rank 8: a load generator for any Iceberg REST catalog, reached by its URL alone.
//!
//! - A **target** is a server under load.
//! - A **caller** is one client: it sends its next request when the last is answered. Callers have
//!   connections of their own that are kept alive, or share some and take turns.
//! - A **step** is one thing that is measured, with one number of clients; a **scenario** is several.
//! - A **round** is one turn of a server in a step. What came of it is a **record**.
//!
//! A [`run::Run`] takes step after step. In each it prepares all servers, warms them up and lets them take
//! turns, so that they meet the same machine. What was measured is a [`load::Measured`]: latencies of
//! everything that was done, what failed, and, where the server's processes are known, the CPU time and
//! memory that it took.
//!
//! Beside the catalogs stand the limits: [`bare_read`] answers with bytes that it has, and [`bare_put`]
//! puts bytes to an object store; nobody reads or commits faster. [`latency`] makes an object store slow.

pub mod append;
pub mod bare_put;
pub mod bare_read;
pub mod bodies;
pub mod connection;
pub mod latency;
pub mod load;
pub mod plan;
pub mod prepare;
pub mod process;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod target;
