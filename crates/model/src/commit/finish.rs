//! The end of a commit: logs, time, and the last look at the whole.

use std::collections::HashSet;

use super::super::refusal::Refusal;
use super::super::table::{MetadataLogEntry, clean_location};
use super::{Applied, Builder};

/// How many earlier documents the metadata log names, unless the table says otherwise.
const PREVIOUS_VERSIONS_MAX_DEFAULT: usize = 100;

/// The table's setting of that number.
const PREVIOUS_VERSIONS_MAX_PROPERTY: &str = "write.metadata.previous-versions-max";

impl Builder<'_> {
    pub(super) fn finish(mut self) -> Result<Applied, Refusal> {
        self.flush_removals();
        if !self.changed {
            return Ok(Applied { metadata: self.metadata, changed: false });
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
        let judged = if self.cut_snapshot_log()? { 0 } else { self.logged_before() };
        self.append_metadata_log();
        let metadata_log_at = self.metadata.metadata_log.len().saturating_sub(1);
        self.metadata.check_logs_from(judged, metadata_log_at)?;
        Ok(Applied { metadata: self.metadata, changed: true })
    }

    /// Drops what the snapshot log must not say: snapshots that were current only between two
    /// updates of this commit, and everything up to the last snapshot that is gone, since a gap
    /// would make another snapshot appear to have been current in its place. Says whether it dropped
    /// something.
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
        // A document registered from elsewhere may have a current snapshot and no log at all.
        let last = self.metadata.snapshot_log.last().map(|entry| entry.snapshot_id);
        match (current, last) {
            (Some(current), Some(last)) if current != last => Err(Refusal::invalid(
                "Cannot set invalid snapshot log: latest entry is not the current snapshot",
            )),
            _ => Ok(true),
        }
    }

    /// How many entries of the snapshot log the base had.
    fn logged_before(&self) -> usize {
        self.base.map_or(0, |base| base.metadata.snapshot_log.len())
    }

    /// Remembers where the base's document is, and forgets the oldest beyond the table's limit.
    fn append_metadata_log(&mut self) {
        let Some(base) = self.base else { return };
        let setting = self.metadata.properties.get(PREVIOUS_VERSIONS_MAX_PROPERTY);
        // A setting that is no number must not stop every later commit, so it counts as absent.
        let versions_max = match setting.and_then(|value| value.trim().parse::<i64>().ok()) {
            Some(number) => usize::try_from(number).unwrap_or_default().max(1),
            None => PREVIOUS_VERSIONS_MAX_DEFAULT,
        };
        self.metadata.metadata_log.extend(base.metadata_location.map(|location| {
            let timestamp_ms = base.metadata.last_updated_ms;
            MetadataLogEntry { timestamp_ms, metadata_file: location.into() }
        }));
        let excess = self.metadata.metadata_log.len().saturating_sub(versions_max);
        self.metadata.metadata_log.drain(..excess);
    }
}
