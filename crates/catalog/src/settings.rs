//! The catalog's bounds and times.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use slateberg_authz::resource::LEVELS_MAX;
use slateberg_base::setting::InvalidSetting;
use slateberg_model::ident::NameLimits;

/// Bytes of memory that a job takes for each file that it knows: a hash, and its slot in a set.
pub const JOB_FILE_BYTES: u64 = 40;

/// Settings of the catalog; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Levels that a namespace may have: at most 254.
    pub namespace_levels_max: usize,
    /// Bytes (UTF-8) of one namespace level, table name or view name.
    pub name_bytes_max: usize,
    /// Bytes of all properties of one namespace together.
    pub namespace_properties_bytes_max: usize,
    /// Names on one page of a listing, however many a client asks for.
    pub page_size_max: usize,
    /// Tables that one transaction may change.
    pub transaction_tables_max: usize,
    /// Commits that may wait for one table; further ones are answered 503.
    pub commit_lane_depth_max: usize,
    /// Milliseconds after which a commit that waits is answered 503, and one that was handed to the
    /// log is answered with an unknown outcome.
    pub commit_deadline_ms: u64,
    /// Seconds for which an `Idempotency-Key` is remembered.
    pub idempotency_lifetime_seconds: u64,
    /// Entries of the change log that are kept.
    pub change_log_entries_max: u64,
    /// Bytes of metadata (as JSON) that are kept parsed; 0 for a share of `memory_bytes_max`.
    pub metadata_cache_bytes: u64,
    /// Bytes that are kept for listings that policies filter: the attributes of names that policies
    /// read, and the names that each principal sees; 0 for a share of `memory_bytes_max`.
    pub listing_cache_bytes: u64,
    /// Bytes of a file of a warehouse (metadata, manifest list, manifest) that are read, and that
    /// it may unfold to if it is compressed. Files that are read at the same time have as many
    /// together, and so have those that are decompressed; 0 for a share of `memory_bytes_max`.
    pub file_bytes_max: u64,
    /// Files that a background deletion deletes at the same time.
    pub file_deletions_parallel_max: usize,
    /// Files that all background jobs together delete in a second; 0 for any number.
    pub file_deletions_per_second_max: u32,
    /// Background jobs that run side by side, besides the clean-up of metadata files.
    pub jobs_parallel_max: usize,
    /// Milliseconds for which the response to a purge waits for its job, so that the files of a small table
    /// are deleted when the client learns that the table is; 0 for no wait.
    pub purge_wait_ms: u64,
    /// Files that have to stay, of which all jobs together know at the same time; 0 for a share of
    /// `memory_bytes_max`.
    pub job_files_known_max: usize,
    /// Seconds for which a job that has ended can be looked at.
    pub jobs_kept_seconds: u64,
    /// Jobs that have ended that are kept for that.
    pub jobs_kept_max: usize,
    /// Seconds that a file has to be old before it counts as an orphan, unless a request says
    /// otherwise.
    pub orphan_age_seconds: u64,
    /// The least that a request may say.
    pub orphan_age_seconds_min: u64,
    /// Warehouses that there may be when another one is made through the API.
    pub warehouses_max: usize,
    /// Seconds for which the place of a warehouse is tried out that is made or changed through the
    /// API.
    pub warehouse_probe_seconds_max: u64,
    /// Credentials for the files of tables that are kept, each for one table and what may be done
    /// with it.
    pub vended_credentials_max: usize,
    /// Directories of this machine below which warehouses may be that are made through the API,
    /// besides
    /// `warehouse` in the data directory.
    pub local_warehouse_dirs: Vec<PathBuf>,
    /// Whether a table or view may be at, inside or around the location of another one, of a
    /// namespace, or of a warehouse as a whole.
    pub overlapping_locations: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace_levels_max: 32,
            name_bytes_max: 512,
            namespace_properties_bytes_max: 1 << 20,
            page_size_max: 1000,
            transaction_tables_max: 128,
            commit_lane_depth_max: 1024,
            commit_deadline_ms: 30_000,
            idempotency_lifetime_seconds: 30 * 60,
            change_log_entries_max: 100_000,
            metadata_cache_bytes: 0,
            listing_cache_bytes: 0,
            file_bytes_max: 0,
            file_deletions_parallel_max: 16,
            file_deletions_per_second_max: 1000,
            jobs_parallel_max: 4,
            purge_wait_ms: 50,
            job_files_known_max: 0,
            jobs_kept_seconds: 7 * 24 * 60 * 60,
            jobs_kept_max: 10_000,
            orphan_age_seconds: 3 * 24 * 60 * 60,
            orphan_age_seconds_min: 24 * 60 * 60,
            warehouses_max: 1000,
            warehouse_probe_seconds_max: 20,
            vended_credentials_max: 10_000,
            local_warehouse_dirs: Vec::new(),
            overlapping_locations: false,
        }
    }
}

impl Settings {
    /// Returns the setting that is wrong in itself or together with others, if there is one.
    pub fn problem(&self) -> Option<InvalidSetting> {
        // The path of a resource in policies also has the warehouse and the table.
        let most = LEVELS_MAX - 2;
        let levels = self.namespace_levels_max;
        if levels > most {
            let message = format!("expected at most {most}, got {levels}");
            return Some(InvalidSetting::new("catalog.namespace_levels_max", message));
        }
        let (age, least) = (self.orphan_age_seconds, self.orphan_age_seconds_min);
        (age < least).then(|| {
            let message = format!("expected at least orphan_age_seconds_min, {least}, got {age}");
            InvalidSetting::new("catalog.orphan_age_seconds", message)
        })
    }

    /// The bounds of names.
    pub fn name_limits(&self) -> NameLimits {
        NameLimits {
            namespace_levels_max: self.namespace_levels_max,
            name_bytes_max: self.name_bytes_max,
        }
    }

    /// How long a commit may take.
    pub fn commit_deadline(&self) -> Duration {
        Duration::from_millis(self.commit_deadline_ms)
    }

    /// How long the place of a warehouse is tried out.
    pub fn warehouse_probe_max(&self) -> Duration {
        Duration::from_secs(self.warehouse_probe_seconds_max)
    }

    /// How long an `Idempotency-Key` is remembered.
    pub fn idempotency_lifetime(&self) -> Duration {
        Duration::from_secs(self.idempotency_lifetime_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_no_deeper_than_policies_can_be_asked_about() {
        let deep = |namespace_levels_max| Settings { namespace_levels_max, ..Settings::default() };
        assert_eq!(Settings::default().problem(), None);
        assert_eq!(deep(254).problem(), None);
        let refused = deep(255).problem().map(|problem| problem.to_string());
        let expected = "catalog.namespace_levels_max: expected at most 254, got 255";
        assert_eq!(refused.as_deref(), Some(expected));
    }
}
