//! Transfer of the whole catalog as lines of JSON: [`export`] reads one store, and [`import`]
//! writes into another, empty one.
//!
//! The lines have a format of their own ([`mod@line`]), which is independent of the store's records
//! and stays readable when those change. `docs/backup.md` describes it. The lines contain no
//! secrets: API keys are hashed, and credentials of warehouses are only referenced by their names
//! in the configuration.

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
        /// Its number, starting at 1.
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
