//! Concurrent clients, and a checker that looks for a serial order of what they were answered.
//!
//! A **history** holds every request with the moments of its call and of its answer ([`history`]). It is
//! **linearizable** if the requests can be put into one order that respects those moments and in which a
//! catalog that does one thing after the other ([`model`]) gives the same answers ([`search`]).
//!
//! - [`names`] checks short histories of everything at once: namespaces and tables made, dropped,
//!   renamed, changed and read.
//! - [`chains`] checks longer histories of commits to few tables, whose snapshots tell their order.
//! - [`moving_tables`] forces a read and a rename to meet.
//! - [`records`] reads what the store keeps in process, beside a writer.
//!
//! `SLATEBERG_ISOLATION_SEEDS` says how many histories of each kind there are, and
//! `SLATEBERG_ISOLATION_SEED` where they begin.

#![allow(unreachable_pub, reason = "a test crate is the whole world of its modules")]
#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever reads the test's output"
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
mod records;
