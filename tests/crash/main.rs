//! State after a crash, and responses during faults of the object store.
//!
//! There are two kinds of tests. The tests in [`kills`], [`journal`], [`descriptors`],
//! [`processes`], [`power_failures`], [`encryption`], [`checkpoints`], [`damage`], [`watches`] and [`webhooks`], and some tests in
//! [`policies`] and [`warehouses`], run the real binary on a real directory and kill it at random
//! moments. All other tests run the catalog in the test's process, on a bucket that fails or delays
//! requests or loses their responses. Such a bucket can stop the catalog at an exact moment, which
//! a kill cannot.

#![allow(unreachable_pub, reason = "only this test crate uses its modules")]
#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for developers who read the output of the test"
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
mod maintenance;
mod metadata_files;
mod outages;
mod policies;
mod refusals;
mod reopening;
mod separate_log;
mod starts;
mod warehouses;
mod watch_folds;

mod append_rebase;
mod broken_stores;
mod checkpoints;
mod client;
mod damage;
mod descriptors;
#[cfg(target_os = "linux")]
mod disk_faults;
mod encryption;
mod full_disk;
mod journal;
mod kills;
#[cfg(target_os = "linux")]
mod power_failures;
mod processes;
mod server;
mod storage_failures;
mod undrop;
mod watches;
mod webhooks;
mod workload;
