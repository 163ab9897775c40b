//! Shared parts of the tests: an in-process catalog on real SlateDB, and requests to its router.

#![allow(dead_code, reason = "each test crate uses only a part of this module")]
#![allow(unreachable_pub, reason = "each test crate compiles this module as its own")]

pub mod app;
pub mod appends;
pub mod avro;
pub mod bucket;
pub mod certificates;
pub mod clock;
pub mod embedded;
pub mod env_numbers;
pub mod faults;
pub mod fsck;
pub mod function;
pub mod iceberg_writer;
pub mod issuer;
pub mod metrics_report;
pub mod offline;
pub mod path;
pub mod program;
pub mod raw_connection;
pub mod scan_table;
pub mod schema;
pub mod served_app;
pub mod snapshots;
pub mod state;
pub mod sts;
pub mod table;
pub mod table_with_files;
pub mod view;
