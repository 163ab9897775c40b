//! Completes a commit: updates the logs and the time, and validates the whole document.

use std::collections::HashSet;

use super::super::metadata_log::MetadataLogEntry;
use super::super::refusal::Refusal;
use super::super::table::clean_location;
use super::{AppliedCommit, Builder};

/// Default number of earlier documents in the metadata log.
const PREVIOUS_VERSIONS_MAX_DEFAULT: usize = 100;

/// The table property that overrides [`PREVIOUS_VERSIONS_MAX_DEFAULT`].
const PREVIOUS_VERSIONS_MAX_PROPERTY: &str = "write.metadata.previous-versions-max";

impl Builder<'_> {
    pub(super) fn finish(mut self) -> Result<AppliedCommit, Refusal> {
        self.flush_removals();
        if !self.changed {
            return Ok(AppliedCommit { metadata: self.metadata, changed: false });
        }
        if self.metadata.location.is_empty() {
            let default = self.ctx.default_location.as_deref();
            let location = default.ok_or_else(|| Refusal::invalid("Invalid location: null"))?;
            self.metadata.location = clean_location(location)?;
        }
        if self.metadata.table_uuid.is_nil() {
            self.metadata.table_uuid = self.ctx.new_uuid;
        }
        if self.layout_changed {
            self.metadata.check_against_schema()?;
        }
        self.metadata.last_updated_ms = self.updated_ms;
        let snapshot_log_at = if self.cut_snapshot_log()? { 0 } else { self.logged_before() };
        self.append_metadata_log();
        let metadata_log_at = self.metadata.metadata_log.len().saturating_sub(1);
        self.metadata.check_logs_from(snapshot_log_at, metadata_log_at)?;
        Ok(AppliedCommit { metadata: self.metadata, changed: true })
    }

    /// Removes two kinds of entries from the snapshot log:
    ///
    /// - entries of snapshots that were current only between two updates of this commit;
    /// - if this commit removed snapshots, all entries up to the last entry of a removed snapshot.
    ///   If only the entries of removed snapshots disappeared, the log would suggest that other
    ///   snapshots were current at those times.
    ///
    /// Returns whether an entry may have been removed.
    fn cut_snapshot_log(&mut self) -> Result<bool, Refusal> {
        let current = self.metadata.current_snapshot_id;
        let mut intermediate = std::mem::take(&mut self.added_to_main);
        if let Some(current) = current {
            intermediate.remove(&current);
        }
        if intermediate.is_empty() && !self.removed_snapshots {
            return Ok(false);
        }
        let ids: HashSet<i64> = self.metadata.snapshots.ids().collect();
        let log = &mut self.metadata.snapshot_log;
        let behind_the_gap = if self.removed_snapshots {
            log.iter().rev().take_while(|entry| ids.contains(&entry.snapshot_id)).count()
        } else {
            log.len()
        };
        let mut left = log.len();
        log.retain_ids(|id| {
            left -= 1;
            left < behind_the_gap && ids.contains(&id) && !intermediate.contains(&id)
        });
        // A document that was registered from another catalog may have a current snapshot but an
        // empty log.
        let last = self.metadata.snapshot_log.last().map(|entry| entry.snapshot_id);
        match (current, last) {
            (Some(current), Some(last)) if current != last => Err(Refusal::invalid(
                "Cannot set invalid snapshot log: latest entry is not the current snapshot",
            )),
            _ => Ok(true),
        }
    }

    /// Returns the number of entries in the base's snapshot log.
    fn logged_before(&self) -> usize {
        self.base.map_or(0, |base| base.metadata.snapshot_log.len())
    }

    /// Appends the location of the base's document to the metadata log, and removes the oldest
    /// entries beyond the limit of the table.
    fn append_metadata_log(&mut self) {
        let Some(base) = self.base else { return };
        let setting = self.metadata.properties.get(PREVIOUS_VERSIONS_MAX_PROPERTY);
        // A value that is not a number is ignored, because otherwise every later commit would fail.
        let versions_max = match setting.and_then(|value| value.trim().parse::<i64>().ok()) {
            Some(number) => usize::try_from(number).unwrap_or_default().max(1),
            None => PREVIOUS_VERSIONS_MAX_DEFAULT,
        };
        self.metadata.metadata_log.extend(base.metadata_location.map(|location| {
            let timestamp_ms = base.metadata.last_updated_ms;
            MetadataLogEntry::new(timestamp_ms, location.into())
        }));
        let excess = self.metadata.metadata_log.len().saturating_sub(versions_max);
        self.metadata.metadata_log.drain(..excess);
    }
}
