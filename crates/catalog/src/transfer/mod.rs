//! Transfers a whole catalog as lines of JSON: [`export`] reads a store, and [`import`] writes to
//! an empty store.
//!
//! The format of the lines ([`mod@line`]) is independent of the records in the store, and stays
//! readable when the records change. `docs/backup.md` describes it. The lines contain no secrets.
//! They contain only the hashes of API keys, and only the names of the credentials of warehouses
//! (the configuration has the credentials themselves).

pub mod check;
pub mod export;
pub mod import;
pub mod line;

use std::io;

use slateberg_store as store;

/// Failure to export or import.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is invalid.
    #[error("line {number}: {reason}")]
    Line {
        /// Number of the line, starting at 1.
        number: usize,
        /// The problem.
        reason: String,
    },
    /// The store cannot be exported, or valid lines do not fit into this catalog.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The result of an export or import.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
