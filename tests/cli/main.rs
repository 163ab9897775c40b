//! The command line: help, errors, exit codes and output formats of the program itself.

#![allow(dead_code, reason = "this crate uses only a part of the shared module")]
#![allow(unreachable_pub, reason = "this crate compiles the shared module as its own")]

#[path = "../support/program.rs"]
mod program;

mod contents;
mod errors;
mod help;
