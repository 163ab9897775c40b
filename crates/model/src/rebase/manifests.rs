//! [`ClientManifests`]: the manifests of a commit that is rebased.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use super::super::manifest_file::ManifestFile;
use super::super::snapshot::Operation;
use super::reason::NotRebased;

/// The manifests in the manifest list of a client.
///
/// The client has written some of them itself. It may have *replaced* manifests of the snapshot
/// that it had loaded: some clients merge old manifests when they append, and a compaction replaces
/// manifests by definition. The replaced manifests are missing in its list, and its own manifests
/// contain their files with the status *existing* or *deleted*.
#[derive(Debug, Clone)]
pub struct ClientManifests {
    operation: Operation,
    own: Vec<ManifestFile>,
    /// Paths of the manifests that the client has not written.
    kept: HashSet<String>,
}

/// Numbers of files and of rows.
type Counts = (i64, i64);

impl ClientManifests {
    /// Splits the manifest list of the snapshot `snapshot_id`.
    pub(super) fn of(
        snapshot_id: i64,
        operation: Operation,
        list: impl IntoIterator<Item = ManifestFile>,
    ) -> Result<Self, NotRebased> {
        let (own, kept): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|it| it.added_snapshot_id == snapshot_id);
        if own.is_empty() || !own.iter().all(has_valid_counts) {
            return Err(NotRebased::Manifests);
        }
        if own.iter().any(|it| it.key_metadata.is_some()) {
            return Err(NotRebased::Encrypted);
        }
        for it in &own {
            let adds_deletes = !it.is_data() && it.added_files_count != Some(0);
            match operation {
                // An append may merge manifests with delete files, but may not add delete files.
                Operation::Append if adds_deletes || it.deleted_files_count != Some(0) => {
                    return Err(NotRebased::Manifests);
                }
                // The delete files of the loaded snapshot do not apply to files that were appended
                // later. So a compaction may remove those that it has applied. But a delete file
                // that it adds could get a higher sequence number by the rebase, and apply to them.
                Operation::Replace if adds_deletes => return Err(NotRebased::DeleteFiles),
                _ => {}
            }
        }
        let mut kept: HashSet<_> = kept.into_iter().map(|it| it.path).collect();
        if !replaces(operation, &own) {
            kept.clear();
        }
        Ok(Self { operation, own, kept })
    }

    /// Returns the manifests that the client has written.
    pub fn own(&self) -> &[ManifestFile] {
        &self.own
    }

    /// Whether the client has replaced manifests.
    pub fn replaces(&self) -> bool {
        replaces(self.operation, &self.own)
    }

    /// Returns the manifests that the client has replaced. `base` are the manifests of the snapshot
    /// that the client had loaded. Manifests without live files are not returned, because many
    /// clients drop them.
    ///
    /// # Errors
    /// Returns the reason if the client's own manifests do not account for all files of the replaced
    /// manifests.
    pub fn replaced<'a>(
        &self,
        base: impl IntoIterator<Item = &'a ManifestFile>,
    ) -> Result<Vec<ManifestFile>, NotRebased> {
        let replaced: Vec<_> = base
            .into_iter()
            .filter(|it| !self.kept.contains(&it.path) && live(it).is_none_or(|it| it.0 > 0))
            .cloned()
            .collect();
        for is_data in [true, false] {
            let of_content = |it: &&ManifestFile| it.is_data() == is_data;
            let before = sum(replaced.iter().filter(of_content).map(live));
            let after = sum(self.own.iter().filter(of_content).map(former));
            if before.is_none() || before != after {
                return Err(NotRebased::Manifests);
            }
        }
        Ok(replaced)
    }

    /// Checks that the replaced manifests can be replaced in the current state of the branch, which
    /// has the manifests `head`. `base` are the manifests of the snapshot that the client had loaded.
    ///
    /// # Errors
    /// Returns the reason if the branch no longer has these manifests, or if delete files were added
    /// that a compaction would have to apply.
    pub fn check_replaced<'a>(
        &self,
        replaced: &[ManifestFile],
        base: impl IntoIterator<Item = &'a ManifestFile>,
        head: impl IntoIterator<Item = &'a ManifestFile>,
    ) -> Result<(), NotRebased> {
        let head: HashMap<_, _> = head.into_iter().map(|it| (it.path.as_str(), it)).collect();
        let remains =
            |it: &ManifestFile| head.get(it.path.as_str()).is_some_and(|now| is_same(now, it));
        if !replaced.iter().all(remains) {
            return Err(NotRebased::Replaced);
        }
        if self.operation == Operation::Replace {
            let known: HashSet<_> = base.into_iter().map(|it| it.path.as_str()).collect();
            let mut deletes = head.values().filter(|it| !it.is_data());
            if !deletes.all(|it| known.contains(it.path.as_str())) {
                return Err(NotRebased::DeleteFiles);
            }
        }
        Ok(())
    }
}

fn replaces(operation: Operation, own: &[ManifestFile]) -> bool {
    operation == Operation::Replace || own.iter().any(|it| it.existing_files_count != Some(0))
}

fn has_valid_counts(it: &ManifestFile) -> bool {
    let files = [it.added_files_count, it.existing_files_count, it.deleted_files_count];
    let rows = [it.added_rows_count, it.existing_rows_count, it.deleted_rows_count];
    files.iter().all(|count| count.is_some_and(|count| count >= 0))
        && rows.iter().all(|count| count.is_some_and(|count| count >= 0))
}

/// Returns the counts of live files.
fn live(it: &ManifestFile) -> Option<Counts> {
    let files = i64::from(it.added_files_count?) + i64::from(it.existing_files_count?);
    Some((files, it.added_rows_count?.checked_add(it.existing_rows_count?)?))
}

/// Returns the counts of files that other manifests had listed before.
fn former(it: &ManifestFile) -> Option<Counts> {
    let files = i64::from(it.existing_files_count?) + i64::from(it.deleted_files_count?);
    Some((files, it.existing_rows_count?.checked_add(it.deleted_rows_count?)?))
}

fn sum(counts: impl Iterator<Item = Option<Counts>>) -> Option<Counts> {
    let mut sum: Counts = (0, 0);
    for counts in counts {
        let (files, rows) = counts?;
        sum = (sum.0.checked_add(files)?, sum.1.checked_add(rows)?);
    }
    Some(sum)
}

/// Whether two lists refer to the same manifest, and its files inherit the same values from both.
/// Other members, such as the summaries of partitions, may be encoded differently.
fn is_same(one: &ManifestFile, other: &ManifestFile) -> bool {
    let inherited = |it: &ManifestFile| {
        (it.content, it.spec_id, it.sequence_number, it.added_snapshot_id, it.first_row_id)
    };
    one.path == other.path && inherited(one) == inherited(other)
}
