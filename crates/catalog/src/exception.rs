//! Names of the catalog's errors, as `ErrorModel.type` of the specification has them. Java's clients choose
//! their exception by them.

use super::Error;

impl Error {
    /// The name of the exception.
    pub fn exception(&self) -> &'static str {
        match self {
            Self::NoSuchWarehouse(..) => "NoSuchWarehouseException",
            Self::NoSuchNamespace(..) => "NoSuchNamespaceException",
            Self::NoSuchTable(..) => "NoSuchTableException",
            Self::NoSuchView(..) => "NoSuchViewException",
            Self::NoSuchFile(..)
            | Self::NoSuchPolicy(..)
            | Self::NoSuchJob(..)
            | Self::NoSuchCheckpoint(..) => "NotFoundException",
            Self::AlreadyExists(..) => "AlreadyExistsException",
            Self::NamespaceNotEmpty(..) => "NamespaceNotEmptyException",
            Self::WarehouseNotEmpty(..) => "WarehouseNotEmptyException",
            Self::Conflict(..) => "ConflictException",
            Self::CommitFailed(..) => "CommitFailedException",
            Self::CommitStateUnknown { .. } => "CommitStateUnknownException",
            Self::Invalid(..) | Self::Unusable(..) => "IllegalArgumentException",
            Self::Unprocessable(..) => "UnprocessableEntityException",
            Self::Forbidden(..) => "ForbiddenException",
            Self::Unavailable { .. } => "SlowDownException",
            Self::Internal { .. } => "InternalServerError",
        }
    }

    /// Whether the catalog has failed, rather than refused what was asked for.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::CommitStateUnknown { .. } | Self::Unavailable { .. } | Self::Internal { .. }
        )
    }
}
