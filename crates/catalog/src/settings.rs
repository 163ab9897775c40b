//! The catalog's limits and durations.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::append_rebase::AppendRebase;
use crate::maintenance_settings::{DailyWindow, MaintainedTables};
use slateberg_authz::resource::LEVELS_MAX;
use slateberg_base::setting::InvalidSetting;
use slateberg_model::ident::NameLimits;
use slateberg_model::table::{FORMAT_VERSION_ADOPTED, FORMAT_VERSION_MAX};

/// Time for which files remain that rebases have left behind. Some clients read their own manifest
/// list after the commit.
const ABANDONED_FILES_KEPT: Duration = Duration::from_secs(15 * 60);

/// Memory, in bytes, for one file that a job must not delete: a hash and its entry in a set.
pub const JOB_FILE_BYTES: u64 = 40;

/// Settings of the catalog. `config/default.toml` has the default of each field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Maximum number of levels of a namespace, at most 254.
    pub namespace_levels_max: usize,
    /// Maximum size of one namespace level, table name or view name, in bytes (UTF-8).
    pub name_bytes_max: usize,
    /// Maximum size of all properties of one namespace together, in bytes.
    pub namespace_properties_bytes_max: usize,
    /// Maximum number of names on one page of a listing, even if a client requests a larger page.
    pub page_size_max: usize,
    /// Maximum number of tables that one transaction may change.
    pub transaction_tables_max: usize,
    /// Maximum number of commits that wait for one table. Further commits get 503.
    pub commit_lane_depth_max: usize,
    /// Appends that the server rebases instead of rejecting them with 409. The property
    /// `slateberg.append-rebase` of a table or namespace enables the rebase, but for no more
    /// appends than this setting (`off` < `declared` < `all`).
    pub append_rebase: AppendRebase,
    /// Maximum number of manifests of a table whose appends are rebased.
    pub append_rebase_manifests_max: usize,
    /// Maximum number of snapshots of a table whose appends are rebased.
    pub append_rebase_snapshots_max: usize,
    /// Maximum time that appends wait for a commit that cannot be rebased and failed because of
    /// appends, in milliseconds. 0 for no wait.
    pub append_rebase_turn_ms: u64,
    /// Tables whose snapshots and manifests the server maintains on a schedule. The properties
    /// `slateberg.maintenance.*` of a table or namespace enable or disable the maintenance.
    pub maintenance: MaintainedTables,
    /// Maximum number of tables that the maintenance visits in a minute. Tables with many commits are
    /// maintained in addition.
    pub maintenance_tables_per_minute: u32,
    /// The part of each day, in UTC, in which the maintenance visits tables, such as `22:00-04:30`.
    /// Empty for the whole day. Tables with many commits are maintained at any time.
    pub maintenance_window: String,
    /// Minimum time between two scheduled searches for the orphans of a table, in seconds.
    pub maintenance_orphans_seconds: u64,
    /// Maximum duration of a commit, in milliseconds. After this time, a commit that still waits
    /// gets 503. If the commit is already in the write-ahead log, its outcome is unknown.
    pub commit_deadline_ms: u64,
    /// Seconds for which an `Idempotency-Key` is stored.
    pub idempotency_lifetime_seconds: u64,
    /// Whether tables may have format version 4, which is experimental.
    pub format_version_4: bool,
    /// Whether the server has the route `POST /v1/{prefix}/events` of the proposed specification.
    pub events: bool,
    /// Number of metrics reports of a table that the catalog keeps: the newest ones. 0 keeps none.
    pub metrics_reports_kept_max: usize,
    /// Maximum number of entries of the change log.
    pub change_log_entries_max: u64,
    /// Size of two caches together: parsed metadata (measured in bytes of JSON), and manifest lists
    /// of rebased appends. 0 for a share of `memory_bytes_max`.
    pub metadata_cache_bytes: u64,
    /// Size of the cache for listings that policies filter, in bytes. For each page of a listing,
    /// it contains the names that each principal sees, and the attributes that policies read. 0 for
    /// a share of `memory_bytes_max`.
    pub listing_cache_bytes: u64,
    /// Size of the cache of manifest lists and manifests for scan planning, in bytes; 0 for a share
    /// of `memory_bytes_max`.
    pub manifest_cache_bytes: u64,
    /// Size up to which the index of the search gets columns and comments, in bytes. The index
    /// contains all names even if these exceed the size. 0 for a share of `memory_bytes_max`. Larger
    /// sizes than 512 MiB have the effect of 512 MiB.
    pub search_index_bytes_max: u64,
    /// Maximum number of scans that are planned concurrently. Further requests wait for at most 5
    /// seconds. The scans of one principal can be at most half of this number.
    pub plans_parallel_max: usize,
    /// Maximum size of the responses to scan planning that are in memory, in bytes; 0 for a share of
    /// `memory_bytes_max`. A response is in memory until the client has read it.
    pub plan_bytes_max: u64,
    /// Maximum time for which a request waits for its plan, in milliseconds. After this time, the
    /// client has to ask for the result.
    pub plan_wait_ms: u64,
    /// Maximum size of a file of a warehouse (metadata, manifest list, manifest), in bytes, before
    /// and after decompression. The same limit applies to the total size of the files in all
    /// concurrent reads, and in all concurrent decompressions. 0 for a share of `memory_bytes_max`.
    pub file_bytes_max: u64,
    /// Number of files that a background job deletes concurrently.
    pub file_deletions_parallel_max: usize,
    /// Number of files that all background jobs together delete in a second. 0 for no limit.
    pub file_deletions_per_second_max: u32,
    /// Number of background jobs that run concurrently. Clean-ups of metadata files and after rebases
    /// do not count.
    pub jobs_parallel_max: usize,
    /// Maximum time that the response to a purge waits for the job, in milliseconds. With this
    /// wait, the files of a small table are usually deleted before the client gets the response. 0
    /// for no wait.
    pub purge_wait_ms: u64,
    /// Maximum number of files that all concurrent jobs together remember as files that they must
    /// not delete. 0 for a share of `memory_bytes_max`.
    pub job_files_known_max: usize,
    /// Retention of finished jobs, in seconds.
    pub jobs_kept_seconds: u64,
    /// Maximum number of finished jobs that are retained.
    pub jobs_kept_max: usize,
    /// Retention of dropped namespaces, tables and views, in seconds. They can be restored until
    /// the retention ends. 0 for no retention.
    pub dropped_kept_seconds: u64,
    /// Maximum number of dropped namespaces, tables and views of a warehouse. If there are more,
    /// the retention of the oldest ones ends.
    pub dropped_kept_max: usize,
    /// Default minimum age of an orphan file, in seconds.
    pub orphan_age_seconds: u64,
    /// A request may set the minimum age of an orphan file. This is the smallest permitted value,
    /// in seconds.
    pub orphan_age_seconds_min: u64,
    /// Maximum number of warehouses. It is checked when the API creates a warehouse.
    pub warehouses_max: usize,
    /// Timeout for the probe of a warehouse's location, in seconds, when the API creates or changes
    /// the warehouse.
    pub warehouse_probe_seconds_max: u64,
    /// Maximum number of cached credentials for table files. Each credential is for one table and
    /// one set of allowed file operations.
    pub vended_credentials_max: usize,
    /// Local directories in which the API may create warehouses. `warehouse` in the data directory
    /// is always allowed.
    pub local_warehouse_dirs: Vec<PathBuf>,
    /// Whether the location of a table or view may overlap with the location of another table or
    /// view, of a namespace, or of a whole warehouse.
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
            append_rebase: AppendRebase::Off,
            append_rebase_manifests_max: 2000,
            append_rebase_snapshots_max: 5000,
            append_rebase_turn_ms: 1000,
            maintenance: MaintainedTables::Off,
            maintenance_tables_per_minute: 60,
            maintenance_window: String::new(),
            maintenance_orphans_seconds: 7 * 24 * 60 * 60,
            commit_deadline_ms: 30_000,
            idempotency_lifetime_seconds: 30 * 60,
            format_version_4: true,
            events: false,
            metrics_reports_kept_max: 20,
            change_log_entries_max: 100_000,
            metadata_cache_bytes: 0,
            listing_cache_bytes: 0,
            manifest_cache_bytes: 0,
            search_index_bytes_max: 0,
            plans_parallel_max: 64,
            plan_bytes_max: 0,
            plan_wait_ms: 20_000,
            file_bytes_max: 0,
            file_deletions_parallel_max: 16,
            file_deletions_per_second_max: 1000,
            jobs_parallel_max: 4,
            purge_wait_ms: 50,
            job_files_known_max: 0,
            jobs_kept_seconds: 7 * 24 * 60 * 60,
            jobs_kept_max: 10_000,
            dropped_kept_seconds: 7 * 24 * 60 * 60,
            dropped_kept_max: 100_000,
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
    /// Returns the size of the cache of manifest lists, in bytes: a quarter of
    /// `metadata_cache_bytes`.
    pub(crate) fn manifest_list_cache_bytes(&self) -> u64 {
        self.metadata_cache_bytes / 4
    }

    /// Returns the size of the cache of parsed metadata, in bytes: the remainder of
    /// `metadata_cache_bytes`.
    pub(crate) fn version_cache_bytes(&self) -> u64 {
        self.metadata_cache_bytes - self.manifest_list_cache_bytes()
    }

    /// Returns the maximum time for which a request waits for its plan.
    pub(crate) fn plan_wait(&self) -> Duration {
        Duration::from_millis(self.plan_wait_ms)
    }

    /// Returns the first setting that is invalid, alone or in combination with others.
    pub fn problem(&self) -> Option<InvalidSetting> {
        // A resource path in policies also contains the warehouse and the table.
        let most = LEVELS_MAX - 2;
        let levels = self.namespace_levels_max;
        if levels > most {
            let message = format!("expected at most {most}, got {levels}");
            return Some(InvalidSetting::new("catalog.namespace_levels_max", message));
        }
        let window = &self.maintenance_window;
        if window.parse::<DailyWindow>().is_err() {
            let message = format!("expected a part of a day such as 22:00-04:30, got '{window}'");
            return Some(InvalidSetting::new("catalog.maintenance_window", message));
        }
        let (age, least) = (self.orphan_age_seconds, self.orphan_age_seconds_min);
        (age < least).then(|| {
            let message = format!("expected at least orphan_age_seconds_min, {least}, got {age}");
            InvalidSetting::new("catalog.orphan_age_seconds", message)
        })
    }

    /// Returns the part of each day in which the maintenance visits tables.
    pub(crate) fn maintenance_window(&self) -> DailyWindow {
        // `problem` has checked the setting.
        self.maintenance_window.parse().unwrap_or(DailyWindow::NEVER)
    }

    /// Returns the limits of names.
    pub(crate) fn name_limits(&self) -> NameLimits {
        NameLimits {
            namespace_levels_max: self.namespace_levels_max,
            name_bytes_max: self.name_bytes_max,
        }
    }

    /// Returns the greatest format version that clients may select for a table.
    pub(crate) fn format_version_max(&self) -> u8 {
        if self.format_version_4 { FORMAT_VERSION_MAX } else { FORMAT_VERSION_ADOPTED }
    }

    /// Returns the time limit of a commit.
    pub(crate) fn commit_deadline(&self) -> Duration {
        Duration::from_millis(self.commit_deadline_ms)
    }

    /// Returns the maximum time that appends wait for another commit. It is at most half of the time
    /// limit of a commit, so that these appends can still meet their own time limit.
    pub(crate) fn append_rebase_turn(&self) -> Duration {
        Duration::from_millis(self.append_rebase_turn_ms).min(self.commit_deadline() / 2)
    }

    /// Returns how long files remain that rebases have left behind. It is much longer than a commit.
    pub(crate) fn abandoned_files_kept(&self) -> Duration {
        ABANDONED_FILES_KEPT.max(self.commit_deadline().saturating_mul(10))
    }

    /// Returns the time limit for the probe of a warehouse's location.
    pub(crate) fn warehouse_probe_max(&self) -> Duration {
        Duration::from_secs(self.warehouse_probe_seconds_max)
    }

    /// Returns how long an `Idempotency-Key` is stored.
    pub fn idempotency_lifetime(&self) -> Duration {
        Duration::from_secs(self.idempotency_lifetime_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_depth_is_limited_to_that_of_policies() {
        let deep = |namespace_levels_max| Settings { namespace_levels_max, ..Settings::default() };
        assert_eq!(Settings::default().problem(), None);
        assert_eq!(deep(254).problem(), None);
        let rejection = deep(255).problem().map(|problem| problem.to_string());
        let expected = "catalog.namespace_levels_max: expected at most 254, got 255";
        assert_eq!(rejection.as_deref(), Some(expected));
    }
}
