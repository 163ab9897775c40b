//! What this build is.

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, if the build was given it as `SLATEBERG_COMMIT`.
pub const COMMIT: &str = match option_env!("SLATEBERG_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
