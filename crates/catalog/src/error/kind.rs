//! Kinds of errors. The kind determines the status and the exception of the response, and whether
//! the error is recorded.

/// The kind of an `Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "`Error` and `MissingResource` document the variants")]
pub enum Kind {
    NoSuchWarehouse,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NoSuchFunction,
    NoSuchFile,
    NoSuchJob,
    NoSuchPolicy,
    NoSuchCheckpoint,
    NoSuchDropped,
    NoSuchProtection,
    NoSuchWebhook,
    NoSuchCursor,
    NoSuchPlan,
    NoSuchPlanTask,
    AlreadyExists,
    NamespaceNotEmpty,
    WarehouseNotEmpty,
    Conflict,
    PositionGone,
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    Unusable,
    Unprocessable,
    Validation,
    NotPlannable,
    Forbidden,
    Unavailable,
    Internal,
}

impl Kind {
    /// Returns the name of the exception, as the Iceberg specification and the management API use
    /// it.
    pub fn exception(self) -> &'static str {
        match self {
            Self::NoSuchWarehouse => "NoSuchWarehouseException",
            Self::NoSuchNamespace => "NoSuchNamespaceException",
            Self::NoSuchTable => "NoSuchTableException",
            Self::NoSuchView => "NoSuchViewException",
            Self::NoSuchFunction => "NoSuchFunctionException",
            Self::NoSuchFile
            | Self::NoSuchPolicy
            | Self::NoSuchJob
            | Self::NoSuchCheckpoint
            | Self::NoSuchDropped
            | Self::NoSuchProtection
            | Self::NoSuchWebhook
            | Self::NoSuchCursor => "NotFoundException",
            Self::NoSuchPlan => "NoSuchPlanIdException",
            Self::NoSuchPlanTask => "NoSuchPlanTaskException",
            Self::AlreadyExists => "AlreadyExistsException",
            Self::NamespaceNotEmpty => "NamespaceNotEmptyException",
            Self::WarehouseNotEmpty => "WarehouseNotEmptyException",
            Self::Conflict => "ConflictException",
            Self::PositionGone => "GoneException",
            Self::CommitFailed => "CommitFailedException",
            Self::CommitStateUnknown => "CommitStateUnknownException",
            Self::Invalid | Self::Unusable => "IllegalArgumentException",
            Self::Unprocessable => "UnprocessableEntityException",
            Self::Validation => "ValidationException",
            Self::NotPlannable => "UnsupportedOperationException",
            Self::Forbidden => "ForbiddenException",
            Self::Unavailable => "SlowDownException",
            Self::Internal => "InternalServerError",
        }
    }
}
