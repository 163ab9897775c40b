//! The version of the workspace. Only the server program contains the id of the commit. If a
//! library contained this id, it would have to be rebuilt for each commit.

/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a value by which processes are ordered: that of a newer version is greater. `store_format` is
/// the newest format of the store that the process reads. A version that does not publish it is older
/// than any that does.
pub fn order(store_format: Option<u32>, version: &str) -> (Option<u32>, Vec<u64>) {
    let numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    (store_format, numbers.collect())
}
