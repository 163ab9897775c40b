//! slateberg: an Apache Iceberg REST catalog whose only dependency is a bucket.
//!
//! The modules of the server, highest first. A file imports only from its own module, from modules
//! of a lower rank, and from the library crates (see `docs/architecture.md`).
//!
//! | rank | module | contents |
//! |---|---|---|
//! | 9 | [`cli`] | the command line, one file for each subcommand |
//! | 8 | [`app`] | the server: HTTP routes of an open catalog, connections, TLS, shutdown |
//! | 7 | [`api`] | HTTP: routes, errors, extraction of request inputs, the shapes of bodies |

pub mod cli;

pub mod app;

pub mod api;
