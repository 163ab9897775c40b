//! The values of the catalog and its pure core: metadata documents, and the commits that change
//! them.
//!
//! This crate does no I/O, does not wait and does not log. The current time and random ids are
//! arguments. It validates all input from outside, and no input makes it panic. The error for a
//! request that can never succeed is [`refusal::Refusal::Invalid`]. The error for a request that
//! was valid for another state of the table is `Conflict`.
//!
//! Comments call the Java library of Apache Iceberg the *reference implementation*. A *reference*
//! is a branch or tag, or the use of a column in an expression.
//!
//! The modules are listed in reading order: the names and ids of the catalog, the parts of a
//! document, the documents, the client's requests, and their results.

#![forbid(unsafe_code)]

pub mod ident;
pub mod page;
pub mod principal;
pub mod refusal;
pub mod warehouse;

mod change_json;
pub mod chunked;
mod defaults;
mod deflate;
pub mod encryption_key;
pub mod expiry;
pub mod expression;
pub mod function;
pub mod gzip;
pub mod manifest_file;
pub mod mask;
pub mod members;
pub mod metadata_log;
pub mod partition;
pub mod read_restrictions;
pub mod schema;
pub mod segmented_json;
pub mod separator;
pub mod snapshot;
pub mod sort;
pub mod statistics;
pub mod transform;
pub mod types;
pub mod value;

pub mod table;
mod table_json;
pub mod view;

pub mod requirement;
pub mod update;
pub mod view_update;

pub mod commit;
pub mod create;
pub mod rebase;
pub mod scan;
pub mod view_commit;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod testing;
