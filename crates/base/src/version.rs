//! The version of the workspace. The commit is known to the server program only: a library with
//! it would be rebuilt for
//! each commit.

/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
