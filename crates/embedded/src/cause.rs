//! Conversion of the catalog's errors into errors of the `iceberg` crate.

use iceberg::ErrorKind;

use super::Error;
use slateberg_catalog::error::Kind;

/// Returns the error of the catalog that caused an error of [`super::IcebergCatalog`]. Returns
/// `None` if a different error is the cause. The catalog's own error is more precise than an
/// [`ErrorKind`]: `iceberg` has no kind for a denied permission or an unknown outcome.
pub fn cause(error: &iceberg::Error) -> Option<&Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Converts an error of a call on namespaces.
pub(super) fn about_namespace(error: Error) -> iceberg::Error {
    translated(error, ErrorKind::NamespaceAlreadyExists)
}

/// Converts an error of a call on tables.
pub(super) fn about_table(error: Error) -> iceberg::Error {
    translated(error, ErrorKind::TableAlreadyExists)
}

fn translated(error: Error, taken: ErrorKind) -> iceberg::Error {
    let kind = match error.kind() {
        Kind::NoSuchNamespace => ErrorKind::NamespaceNotFound,
        Kind::NoSuchTable => ErrorKind::TableNotFound,
        Kind::AlreadyExists => taken,
        Kind::CommitFailed => ErrorKind::CatalogCommitConflicts,
        Kind::Invalid | Kind::Validation | Kind::Unprocessable | Kind::NoSuchFile => {
            ErrorKind::DataInvalid
        }
        Kind::Forbidden
        | Kind::NamespaceNotEmpty
        | Kind::WarehouseNotEmpty
        | Kind::Conflict
        | Kind::NoSuchWarehouse => ErrorKind::PreconditionFailed,
        Kind::NoSuchView
        | Kind::NoSuchFunction
        | Kind::NoSuchJob
        | Kind::NoSuchPolicy
        | Kind::NoSuchCheckpoint
        | Kind::NoSuchDropped
        | Kind::NoSuchProtection
        | Kind::NoSuchWebhook
        | Kind::NoSuchCursor
        | Kind::PositionGone
        | Kind::NoSuchPlan
        | Kind::NoSuchPlanTask
        | Kind::NotPlannable
        | Kind::Unusable
        | Kind::CommitStateUnknown
        | Kind::Unavailable
        | Kind::Internal => ErrorKind::Unexpected,
    };
    // After these two errors, nothing was written, and a retry may succeed. A change with an
    // unknown outcome is not retryable, because a retry could apply it twice.
    let retryable = matches!(error.kind(), Kind::CommitFailed | Kind::Unavailable);
    let message = match error.kind() {
        Kind::Forbidden => format!("Permission denied: {error}"),
        _ => error.to_string(),
    };
    iceberg::Error::new(kind, message).with_retryable(retryable).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_catalog::error::{CommitConflict, NameConflict};

    #[test]
    fn retryable_error_is_marked_and_keeps_its_cause() {
        let requirement = CommitConflict::Requirement("a requirement".to_owned());
        let error = Error::CommitFailed(requirement);
        let conflict = about_table(error.clone());
        assert_eq!(conflict.kind(), ErrorKind::CatalogCommitConflicts);
        assert!(conflict.retryable());
        assert_eq!(cause(&conflict), Some(&error));

        let unknown = about_table(Error::unknown("the log did not answer"));
        assert_eq!((unknown.kind(), unknown.retryable()), (ErrorKind::Unexpected, false));
        assert_eq!(cause(&iceberg::Error::new(ErrorKind::Unexpected, "something else")), None);
    }

    #[test]
    fn conflict_error_names_the_requested_kind() {
        let taken = || Error::AlreadyExists(NameConflict::Checkpoint("it is there".to_owned()));
        assert_eq!(about_namespace(taken()).kind(), ErrorKind::NamespaceAlreadyExists);
        assert_eq!(about_table(taken()).kind(), ErrorKind::TableAlreadyExists);
    }
}
