//! Rank 1: what the process tells about itself: logs, metrics, traces, and who did what.
//!
//! Whatever is measured is written down with [`instruments`], on the threads' own [`stripes`]. A
//! [`registry`] knows who has something to tell, and makes a [`collection`] of it when somebody asks: the
//! page for [`prometheus`], or the task that sends it over [`otlp`]. Spans of [`traces`] go the same way.

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
