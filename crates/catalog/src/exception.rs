//! Names of the catalog's errors for `ErrorModel.type` of the specification. Java clients choose
//! their exception by this name.

use super::Error;

impl Error {
    /// Returns the name of the exception.
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

    /// Whether the catalog failed, in contrast to a rejected request.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::CommitStateUnknown { .. } | Self::Unavailable { .. } | Self::Internal { .. }
        )
    }
}
