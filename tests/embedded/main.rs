//! The embedded catalog: one file for each feature on its documentation page.

#[path = "../support/mod.rs"]
mod support;

mod example;
mod files;
mod iceberg_namespaces;
mod iceberg_tables;
mod opening;
mod permissions;
mod traces;
mod transactions;
mod typed;
mod unknown;
