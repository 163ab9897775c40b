//! The version of the workspace. Only the server program contains the commit, because a library
//! with the commit would be rebuilt for each commit.

/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
