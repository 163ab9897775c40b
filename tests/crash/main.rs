//! What is left after a crash, and what is told while the object store misbehaves.
//!
//! Two kinds of tests. Those of [`kills`], [`journal`], [`descriptors`], [`processes`], [`encryption`],
//! [`checkpoints`], [`damage`] and in part [`policies`] and [`warehouses`] run the real binary on a real directory and kill
//! it at random moments.
//! The others run the catalog in the process, on a bucket that fails, delays or loses the answers of
//! requests, and stop that bucket dead where a kill would be too coarse.

#![allow(unreachable_pub, reason = "a test crate is the whole world of its modules")]
#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever reads the test's output"
)]

#[path = "../support/mod.rs"]
mod support;

mod scene;

mod fault_store;
mod fencing;
mod groups;
mod idempotency;
mod jobs;
mod log;
mod metadata_files;
mod outages;
mod policies;
mod refusals;
mod reopening;
mod separate_log;
mod starts;
mod warehouses;

mod broken_stores;
mod checkpoints;
mod client;
mod damage;
mod descriptors;
mod encryption;
mod full_disk;
mod journal;
mod kills;
mod processes;
mod server;
mod storage_failures;
mod workload;
