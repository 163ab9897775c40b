//! The values of the catalog, and the pure heart: metadata documents and the commits that change
//! them.
//!
//! Nothing here waits, reads, writes or logs, and nothing asks for the time or for a random id:
//! both are arguments. Everything that comes from outside is judged here: a wrong request is
//! [`refusal::Refusal::Invalid`], one that was right for another state `Conflict`, and no input
//! panics.
//!
//! The groups below in reading order: the catalog's own nouns; what a document is made of; the
//! documents; what a client asks for; what that leads to.

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
