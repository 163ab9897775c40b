//! [`Interruption`]: the reason why a job stopped before its end.

use super::StopReason;
use crate::Error;
use slateberg_objects as objects;
use slateberg_store as store;

/// The reason why a job stopped before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    /// The server stopped the job, or a caller cancelled it.
    #[error("the job was stopped")]
    Halted(StopReason),
    /// The job cannot succeed, for this reason.
    #[error("{0}")]
    Failed(String),
    /// A step failed. The job is retried later.
    #[error(transparent)]
    Later(Error),
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Later(error)
    }
}

impl From<objects::Error> for Interruption {
    fn from(error: objects::Error) -> Self {
        Self::Later(error.into())
    }
}

impl From<store::Error> for Interruption {
    fn from(error: store::Error) -> Self {
        Self::Later(error.into())
    }
}
