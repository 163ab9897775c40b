//! Rank 1 (`docs/architecture.md`): logs, metrics, traces and the audit log of the process.
//!
//! [`instruments`] record measurements in per-thread [`stripes`]. The [`registry`] collects all
//! sources into a [`collection`] on request: for the [`prometheus`] page, or for the task that
//! exports over [`otlp`]. Spans of [`traces`] are also exported over OTLP.

pub mod audit;
pub mod cache;
pub mod collection;
pub mod commits;
pub mod connections;
pub mod counters;
mod directives;
pub mod http;
pub mod instruments;
pub mod issuers;
pub mod jobs;
mod json_lines;
pub mod logs;
pub mod otlp;
pub mod process;
pub mod prometheus;
pub mod registry;
pub mod requests;
pub mod settings;
pub mod stripes;
pub mod traces;
