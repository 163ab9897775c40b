//! The catalog in another program's process: one file for each thing that the page on it promises.

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
