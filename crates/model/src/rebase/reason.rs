//! [`NotRebased`]: reasons why a commit is not rebased.

/// Reason why a commit is not rebased. It is a part of the message to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRebased {
    /// The commit has updates other than those of an append.
    #[error("it does more than append to a branch")]
    NotAnAppend,
    /// The commit adds several snapshots. At least one of them is not an append, or replaces
    /// manifests, or there are too many.
    #[error(
        "several snapshots are only rebased if each of them is an append without merged manifests"
    )]
    Chain,
    /// The snapshot's operation is neither `append` nor `replace`, or a key of its summary marks it
    /// as dependent.
    #[error("the snapshot depends on the state of the table")]
    Dependent,
    /// The snapshot, the table or a manifest is encrypted.
    #[error("the snapshot is encrypted")]
    Encrypted,
    /// The table has format version 1 or 4.
    #[error("the table has format version {0}")]
    FormatVersion(u8),
    /// The table has disabled the rebase of appends since the commit arrived.
    #[error("the table does not allow the rebase of appends")]
    Disabled,
    /// The writer did not declare the append as blind.
    #[error("the writer did not declare a blind append")]
    NotDeclared,
    /// The asserted snapshot is no longer an ancestor, or a snapshot after it is not an append.
    #[error("the branch has changes other than appends")]
    NotOnlyAppends,
    /// The same writer has committed after the asserted snapshot.
    #[error("the same writer has committed concurrently")]
    SameWriter,
    /// The schema of the branch has changed.
    #[error("the schema has changed")]
    Schema,
    /// The retention settings of the branch have changed.
    #[error("the settings of the branch have changed")]
    Branch,
    /// The manifest list does not match the operation of the snapshot.
    #[error("the manifest list does not match the operation of the snapshot")]
    Manifests,
    /// The commit replaces manifests that the branch no longer has.
    #[error("the branch no longer has the manifests that the commit replaces")]
    Replaced,
    /// A compaction adds delete files, or delete files have been added since.
    #[error("the commit or a concurrent commit adds delete files")]
    DeleteFiles,
    /// The added files of a merged manifest cannot be written to a manifest of their own.
    #[error("a merged manifest cannot be rewritten")]
    MergedManifest,
    /// The manifest list cannot be read.
    #[error("the manifest list cannot be read")]
    Unreadable,
    /// Manifests of the branch have no counts of files and rows, because the table was upgraded.
    #[error("the branch has manifests without counts")]
    Counts,
    /// Files of the branch have no row ids yet, because the table was upgraded.
    #[error("the branch has files without row ids")]
    RowIds,
    /// A file is outside of the locations of the table.
    #[error("a file is outside of the locations of the table")]
    Location,
    /// The table has too many snapshots or manifests.
    #[error("the table has too many {0}")]
    TooMany(&'static str),
    /// Another requirement of the commit does not hold, or an update is invalid.
    #[error("another part of the commit does not apply")]
    Other,
}

impl NotRebased {
    /// Returns the name of the reason, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotAnAppend => "not_an_append",
            Self::Chain => "chain",
            Self::Dependent => "dependent",
            Self::Encrypted => "encrypted",
            Self::FormatVersion(_) => "format_version",
            Self::Disabled => "disabled",
            Self::NotDeclared => "not_declared",
            Self::NotOnlyAppends => "not_only_appends",
            Self::SameWriter => "same_writer",
            Self::Schema => "schema",
            Self::Branch => "branch",
            Self::Manifests => "manifests",
            Self::Replaced => "replaced",
            Self::DeleteFiles => "delete_files",
            Self::MergedManifest => "merged_manifest",
            Self::Unreadable => "unreadable",
            Self::Counts => "counts",
            Self::RowIds => "row_ids",
            Self::Location => "location",
            Self::TooMany(_) => "too_many",
            Self::Other => "other",
        }
    }
}
