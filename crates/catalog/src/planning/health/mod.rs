//! The health of a table: counts and sizes of its files, manifests and snapshots, and advice on
//! what to compact and what to expire.

mod advice;
mod files;
mod history;
mod report;

pub(crate) use advice::{Names, advice_for};
pub(crate) use files::FileCounts;
pub use files::{DataFileCounts, DeleteFileCounts};
pub use history::{Growth, SnapshotCounts};
pub use report::{Advice, AdviceAction, ManifestCounts, MetadataCounts, TableHealth};
