//! [`MigrateError`]: a failed migration.

use crate::cli::client::ClientError;
use crate::cli::exit::{Exit, Failure};

/// The reason why a migration could not begin, or why one request failed.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(in crate::cli) struct MigrateError {
    reason: String,
    exit: Exit,
}

impl MigrateError {
    pub(super) fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), exit: Exit::Failed }
    }
}

impl From<ClientError> for MigrateError {
    fn from(error: ClientError) -> Self {
        Self { exit: error.exit(), ..Self::new(error) }
    }
}

impl From<MigrateError> for Failure {
    fn from(error: MigrateError) -> Self {
        Self::new(error.exit, error)
    }
}
