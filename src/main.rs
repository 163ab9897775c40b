//! The `slateberg` program: runs the command line and returns its exit code.

use std::process::ExitCode;

use slateberg::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
