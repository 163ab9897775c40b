//! The load generator against a real server: every scenario, with tiny numbers.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

#[path = "crash/server.rs"]
mod server;

use server::Server;

/// Numbers that keep every step short.
const TINY: [&str; 26] = [
    "--iterations", "6", "--slow-iterations", "3", "--rounds", "2", "--seconds", "0.02",
    "--warm-up-seconds", "0.01", "--connections", "2", "--clients", "3", "--snapshots", "4",
    "--load-snapshots", "2", "--append-snapshots", "5", "--tables", "7", "--page", "4", "--keys",
    "20", "--columns", "3",
];
