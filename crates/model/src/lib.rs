//! The values of the catalog and its pure core: metadata documents, and the commits that change
//! them.
//!
//! This crate does no I/O, no waiting and no logging. The current time and random ids are
//! arguments. It validates all outside input and never panics on it: a request that is wrong in
//! itself is [`refusal::Refusal::Invalid`], a request that was valid for another state is
//! `Conflict`.
//!
//! Modules, in reading order: the nouns of the catalog, the parts of a document, the documents, the
//! client's requests, and their results.

#![forbid(unsafe_code)]

pub mod ident;
pub mod page;
pub mod principal;
pub mod refusal;
pub mod warehouse;

mod change_json;
pub mod chunked;
mod defaults;
pub mod encryption_key;
pub mod expression;
pub mod mask;
pub mod members;
pub mod partition;
pub mod read_restrictions;
pub mod schema;
pub mod separator;
pub mod snapshot;
pub mod sort;
pub mod statistics;
pub mod text;
pub mod transform;
pub mod types;

pub mod table;
mod table_json;
pub mod view;

pub mod requirement;
pub mod update;
pub mod view_update;

pub mod commit;
pub mod create;
pub mod view_commit;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod testing;
