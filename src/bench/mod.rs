//! Rank 8: a load generator for any Iceberg REST catalog, reached by its URL alone.
//!
//! A **scenario** sets something up, then drives **callers**: each is one client with one connection
//! that is kept alive, and sends its next request when the last is answered. What was measured is a
//! [`load::Measured`]: latencies of every request in a histogram, throughput, and, where the server's
//! process is known, the CPU time and memory that it took.

pub mod connection;
pub mod load;
pub mod process;
pub mod report;
pub mod scenarios;
pub mod target;
