//! slateberg: an Apache Iceberg REST catalog whose only dependency is a bucket.
//!
//! The rooms of the house, from the street to the cellar. A file imports its own room or a strictly
//! lower one; rooms of equal rank are strangers (`tests/tidy.rs` holds them to it).
//!
//! | rank | room | what is in it |
//! |---|---|---|
//! | 9 | [`cli`] | one file for each subcommand |
//! | 9 | [`embedded`] | the catalog in another program's process: a typed API, and `iceberg::Catalog` |
//! | 8 | [`app`] | the composition root: settings become components, components become a server |
//! | 8 | [`mod@bench`] | a load generator for any Iceberg REST catalog |
//! | 7 | [`config`] | settings: the only reader of files and of the environment |
//! | 6 | [`api`] | HTTP: routes, errors, extraction, the shapes of bodies |
//! | 5 | [`catalog`] | the use cases: everything that a client can cause |
//! | 5 | [`authn`] | from a credential to the principal that it proves |
//! | 4 | [`store`] | typed records and transactions on SlateDB |
//! | 4 | [`objects`] | the warehouse's files |
//! | 3 | [`authz`] | who may do what; permission as a value |
//! | 3 | [`kms`] | envelope encryption of what the store keeps |
//! | 2 | [`telemetry`] | logs and counters |
//! | 1 | [`model`] | values, and the pure heart: what a commit makes of a table |
//! | 0 | [`base`] | the time, ids, patience |

#![forbid(unsafe_code)]

pub mod cli;
pub mod embedded;

pub mod app;
pub mod bench;

pub mod config;

pub mod api;

pub mod authn;
pub mod catalog;

pub mod objects;
pub mod store;

pub mod authz;
pub mod kms;

pub mod telemetry;

pub use slateberg_model as model;

pub mod base;
