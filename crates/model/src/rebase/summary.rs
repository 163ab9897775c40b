//! The summary of a rebased snapshot, and the writer that a summary identifies.

use std::collections::BTreeMap;

use super::super::snapshot::Snapshot;

/// Key in the summary of a rebased snapshot. Its value is the snapshot that the client had loaded,
/// or `none` if the branch did not exist.
pub const REBASED_FROM: &str = "slateberg.rebased-from";

/// Keys of a summary that identify the writer of a snapshot. Such a writer expects to see its
/// previous snapshot before it commits the next one. So its append is not rebased onto a snapshot
/// of the same writer.
const WRITER_KEYS: [&str; 3] = ["flink.job-id", "flink.operator-id", "spark.sql.streaming.queryId"];
/// Prefix of the keys with the offsets of a Kafka Connect coordinator.
const KAFKA_OFFSETS_PREFIX: &str = "kafka.connect.offsets.";
/// Keys in a summary. Each entry has three keys: of a total, of the number added to this total, and
/// of the number removed from it.
const TOTALS: [(&str, &str, &str); 6] = [
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
];

/// Keys with the numbers of manifests that remain, that the snapshot adds, and that it replaces.
const MANIFESTS: [&str; 3] = ["manifests-kept", "manifests-created", "manifests-replaced"];

/// A snapshot's summary, with the operation.
pub(super) type Summary = BTreeMap<String, String>;

/// Returns the summary `sent` with new totals. The new totals are the totals in `head`, the summary
/// of the branch's current snapshot, plus the changes of the commit. A retry by the client would
/// have the same totals. `manifests` has the numbers for [`MANIFESTS`], and `base` is the snapshot
/// that the client had loaded.
pub(super) fn rebased(
    sent: &Summary,
    head: Option<&Summary>,
    manifests: &[usize; 3],
    base: Option<i64>,
) -> Summary {
    let mut summary = sent.clone();
    let number = |map: &Summary, key: &str| map.get(key).and_then(|it| it.parse::<i64>().ok());
    for (total, added, removed) in TOTALS {
        let before = match head {
            Some(head) => number(head, total),
            None => Some(0),
        };
        let change = |key: &str| number(sent, key).unwrap_or(0);
        let after = before
            .and_then(|before| before.checked_add(change(added))?.checked_sub(change(removed)))
            .filter(|after| *after >= 0);
        match after {
            Some(after) => summary.insert(total.to_owned(), after.to_string()),
            None => summary.remove(total),
        };
    }
    for (key, count) in MANIFESTS.iter().zip(manifests) {
        if let Some(value) = summary.get_mut(*key) {
            *value = count.to_string();
        }
    }
    let from = base.map_or_else(|| "none".to_owned(), |base| base.to_string());
    summary.insert(REBASED_FROM.to_owned(), from);
    summary
}

/// Whether a summary identifies its writer.
pub(super) fn identifies_writer(summary: &Summary) -> bool {
    let identifies =
        |key: &String| WRITER_KEYS.contains(&key.as_str()) || key.starts_with(KAFKA_OFFSETS_PREFIX);
    summary.keys().any(identifies)
}

/// Whether both summaries identify the same writer.
pub(super) fn is_same_writer(one: &Summary, other: &Summary) -> bool {
    let flink = |summary: &Summary| {
        Some((summary.get(WRITER_KEYS[0])?.clone(), summary.get(WRITER_KEYS[1])?.clone()))
    };
    let streaming = |summary: &Summary| summary.get(WRITER_KEYS[2]).cloned();
    let kafka = one
        .keys()
        .any(|key| key.starts_with(KAFKA_OFFSETS_PREFIX) && other.contains_key(key.as_str()));
    kafka
        || flink(one).is_some_and(|it| flink(other) == Some(it))
        || streaming(one).is_some_and(|it| streaming(other) == Some(it))
}

/// Whether `committed` is the snapshot `sent` after a rebase.
pub(crate) fn is_rebased_form(committed: &Snapshot, sent: &Snapshot) -> bool {
    let rewritten = |key: &str| {
        key == REBASED_FROM || MANIFESTS.contains(&key) || TOTALS.iter().any(|it| it.0 == key)
    };
    let content = |snapshot: &Snapshot| {
        let mut summary = snapshot.summary();
        summary.retain(|key, _| !rewritten(key));
        (snapshot.snapshot_id, snapshot.schema_id, snapshot.added_rows, summary)
    };
    committed.summary().contains_key(REBASED_FROM) && content(committed) == content(sent)
}
