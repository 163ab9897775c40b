//! Clusters in the process of the test: several members on one bucket in memory, each with its own
//! ports and its own fault injection in front of the bucket.

#![allow(unreachable_pub, reason = "only this test crate uses its modules")]
#![expect(clippy::print_stderr, reason = "figures are for developers who read the output")]

#[path = "../support/mod.rs"]
mod support;

mod member;
mod relay;

mod campaign;
mod encrypted;
mod failures;
mod forwarding;
mod identities;
mod misuse;
mod pause;
mod planned;
mod plans;
mod replicas;
mod stopping;
mod transfers;
mod upgrade;
mod without_writer;
