//! slateberg: an Apache Iceberg REST catalog whose only dependency is a bucket.
//!
//! The modules of the server, highest first. A file imports its own module, one of a strictly lower
//! rank, or one of the library crates below (`docs/architecture.md`).
//!
//! | rank | module | contents |
//! |---|---|---|
//! | 9 | [`cli`] | one file for each subcommand |
//! | 9 | [`embedded`] | the catalog in another program's process: a typed API, and `iceberg::Catalog` |
//! | 8 | [`app`] | the composition root: settings become components, components become a server |
//! | 8 | [`mod@bench`] | a load generator for any Iceberg REST catalog |
//! | 7 | [`config`] | settings: the only reader of files and of the environment |
//! | 6 | [`api`] | HTTP: routes, errors, extraction, the shapes of bodies |

pub mod cli;
pub mod embedded;

pub mod app;
pub mod bench;

pub mod config;

pub mod api;
