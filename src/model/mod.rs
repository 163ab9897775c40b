//! The values of the catalog, and the pure heart: metadata documents and the commits that change them.
//!
//! Nothing here waits, reads, writes or logs, and nothing asks for the time or for a random id: both
//! are arguments. Everything that comes from outside is judged here: a wrong request is
//! [`refusal::Refusal::Invalid`], one that was right for another state `Conflict`, and no input panics.
//!
//! Reading order: what a document is made of (`types` to `statistics`), the documents (`table`, `view`),
//! what a client asks for (`requirement`, `update`, `view_update`), and what that leads to (`create`, `commit`,
//! `view_commit`). The beginning and end of the list are the catalog's own nouns.

pub mod ident;
pub mod page;
pub mod principal;
pub mod refusal;
pub mod warehouse;

mod members;

pub mod types;
mod defaults;
pub mod schema;
pub mod transform;
pub mod partition;
pub mod sort;
pub mod snapshot;
pub mod statistics;
pub mod encryption_key;
pub mod table;
mod table_json;
pub mod requirement;
pub mod update;
pub mod commit;
pub mod create;
pub mod view;
pub mod view_update;
pub mod view_commit;

#[cfg(test)]
mod differential_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod testing;
