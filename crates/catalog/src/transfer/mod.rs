//! The whole catalog as lines of JSON: out of one store ([`export`]), and into another, empty one
//! ([`import`]).
//!
//! The lines are a format of their own ([`mod@line`]), which is none of the store's records: it stays
//! readable when those change. `docs/backup.md` describes it. Secrets are not in it: of API keys there are
//! hashes, and of the credentials of warehouses their names in the configuration.

pub mod check;
pub mod export;
pub mod import;
pub mod line;

use std::io;

use slateberg_store as store;

/// Why lines could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is not what it should be.
    #[error("line {number}: {reason}")]
    Line {
        /// Which, from 1 on.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The lines are right in themselves, and do not go into this catalog.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The result of it.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
