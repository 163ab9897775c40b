//! Concurrent clients, and a checker that searches for a serial order of their responses.
//!
//! A **history** contains every request with the times of its call and of its response
//! ([`history`]). It is **linearizable** if there is an order of the requests that respects those
//! times and in which a sequential catalog ([`model`]) gives the same responses ([`search`]).
//!
//! - [`names`] checks short histories of all operations: namespaces and tables are created,
//!   dropped, renamed, changed and read.
//! - [`chains`] checks longer histories of commits to few tables, whose snapshots show their order.
//! - [`moving_tables`] forces a read and a rename to overlap.
//! - [`rebased_appends`] checks appends of writers with stale states.
//! - [`turns`] checks that a delete succeeds while others append.
//! - [`records`] reads the store's in-process caches concurrently with a writer.
//!
//! `SLATEBERG_ISOLATION_SEEDS` sets the number of histories of each kind, and
//! `SLATEBERG_ISOLATION_SEED` the first seed.

#![allow(unreachable_pub, reason = "only this test crate uses its modules")]
#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for developers who read the output of the test"
)]

#[path = "../support/mod.rs"]
mod support;

mod history;
mod model;
mod requests;
mod search;

mod chain_checker;
mod chains;
mod moving_tables;
mod names;
mod rebased_appends;
mod records;
mod turns;
