//! The HTTP API, endpoint by endpoint: one file for each file of `src/api/iceberg`, and one for each
//! thing that all endpoints have in common.

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod authn_cli;
mod authn_failures;
mod authn_jwt;
mod authn_keys;
mod authn_mtls;
mod authn_tokens;
mod authz_attacks;
mod authz_explain;
mod authz_lists;
mod authz_races;
mod authz_routes;
mod config;
mod config_cli;
mod grants;
mod metrics;
mod namespaces;
mod policies;
mod policies_history;
mod policy_cli;
mod policy_files;
mod table_commit;
mod table_snapshots;
mod table_updates;
mod tables;
mod transactions;
mod view_history;
mod views;

mod bad_bodies;
mod bad_input;
mod checkpoints;
mod compression;
mod conditional;
mod connections;
mod cors;
mod delegation;
mod encryption;
mod errors;
mod format_versions;
mod fuzz;
mod idempotency;
mod idempotency_lifetime;
mod job_cli;
mod jobs;
mod limits;
mod locations;
mod long_tables;
mod management_port;
mod metadata_files;
mod names;
mod openapi;
mod pagination;
mod purge;
mod read_restrictions;
mod registration;
mod requests;
mod staged;
mod tls;
mod upgrade;
mod warehouses;
mod warehouses_at_run_time;
