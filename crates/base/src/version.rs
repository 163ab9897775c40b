//! The version of the workspace. Only the server program contains the id of the commit. If a
//! library contained this id, it would have to be rebuilt for each commit.

/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the numbers of a version, by which versions are ordered.
pub fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}
