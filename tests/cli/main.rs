//! The command line: help, errors, exit codes and output formats of the program itself.

#![allow(dead_code, reason = "the shared module has more than this crate uses")]
#![allow(unreachable_pub, reason = "this crate is the whole world of the shared module")]

#[path = "../support/program.rs"]
mod program;

mod contents;
mod errors;
mod help;
