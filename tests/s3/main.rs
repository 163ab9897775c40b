//! Tests that need a real S3 store: races between writers, lost responses, and outages.
//!
//! `make stores` starts the stores, and runs these tests and the other suites on them. A plain
//! `cargo test` skips these tests, because there is no store.

#![allow(unreachable_pub, reason = "only this test crate uses its modules")]
#![expect(clippy::print_stderr, reason = "figures are for developers who read the output")]

#[path = "../crash/client.rs"]
mod client;
#[path = "../crash/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod conflicts;
mod load;
mod network;
mod proxy;
mod races;
mod toxics;
