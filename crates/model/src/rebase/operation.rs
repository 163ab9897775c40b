//! [`Operation`]: what a snapshot does.

/// Value of `operation` in the summary of a snapshot that only adds data files.
pub(super) const APPEND: &str = "append";
/// Value of `operation` in the summary of a snapshot that changes no rows.
pub(super) const REPLACE: &str = "replace";

/// The operation of a snapshot that can be rebased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// It adds data files.
    Append,
    /// It reorganizes files and changes no rows, such as a compaction.
    Replace,
}
