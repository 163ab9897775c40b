//! The `slateberg` program: runs the command line and returns its exit code.

use std::process::ExitCode;

use slateberg::cli;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
