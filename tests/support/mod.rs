//! Shared parts of the tests: an in-process catalog on real SlateDB, and requests to its router.

#![allow(dead_code, reason = "each test crate uses its part of this")]
#![allow(unreachable_pub, reason = "each test crate is the whole world of this module")]

pub mod app;
pub mod avro;
pub mod bucket;
pub mod certificates;
pub mod clock;
pub mod embedded;
pub mod faults;
pub mod filled;
pub mod fsck;
pub mod issuer;
pub mod knobs;
pub mod path;
pub mod program;
pub mod schema;
pub mod served;
pub mod snapshots;
pub mod state;
pub mod sts;
pub mod table;
pub mod view;
