//! [`Error`]: a failed subcommand about policies.

use std::path::PathBuf;

use crate::cli::client::ClientError;
use crate::cli::exit::{Exit, Failure};
use slateberg_runtime::policies;

/// Reasons why a subcommand failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Policies(#[from] policies::Error),
    #[error("{}: {}", .0.display(), .1)]
    Expectations(PathBuf, String),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Server(#[from] ClientError),
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Server(error) => error.into(),
            Error::Usage(_) => Self::new(Exit::Usage, error),
            other => Self::new(Exit::Failed, other),
        }
    }
}
