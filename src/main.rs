//! The `slateberg` program: parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use slateberg::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
