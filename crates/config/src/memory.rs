//! The memory budget of the server, and its distribution among caches, buffers and limits.
//!
//! A setting of [`PARTS`] is derived if its value is 0. Otherwise, it is explicit. The explicit
//! settings and the minimums of all derived settings are subtracted from the budget
//! `memory_bytes_max`. Each derived setting gets its minimum and its weighted share of the rest. If
//! the budget is derived from the machine's memory, some shares have a maximum. So the permitted
//! total exceeds the budget only if the explicit settings and the minimums alone
//! exceed the budget. In this case, the server logs a warning.

use std::path::Path;

use super::settings::Settings;
use slateberg_catalog::settings::JOB_FILE_BYTES;

/// The minimum budget. The longest body and the smallest useful caches must fit into it.
const BUDGET_BYTES_MIN: u64 = 64 << 20;
/// The maximum budget that is derived from the machine's memory.
const DERIVED_BUDGET_BYTES_MAX: u64 = 1 << 30;
/// Divisor of the memory of the machine or cgroup. The quotient is the derived budget. The
/// remaining memory is for the program itself, allocations of requests and compactions, the
/// allocator's overhead, and the page cache.
const MEMORY_DIVISOR: u64 = 4;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A setting that permits the use of memory.
struct MemoryShare {
    key: &'static str,
    /// Memory per unit of the setting, in bytes.
    unit_bytes: u64,
    /// Weight in the distribution, in 64ths.
    weight: u64,
    /// Minimum of a derived setting, in bytes.
    bytes_min: u64,
    get: fn(&Settings) -> u64,
    set: fn(&mut Settings, u64),
}

macro_rules! part {
    ($section:ident.$key:ident, $unit_bytes:expr, $weight:expr, $bytes_min:expr) => {
        MemoryShare {
            key: concat!(stringify!($section), ".", stringify!($key)),
            unit_bytes: $unit_bytes,
            weight: $weight,
            bytes_min: $bytes_min,
            get: |settings| settings.$section.$key as u64,
            set: |settings, value| {
                settings.$section.$key = value.try_into().unwrap_or(usize::MAX as _)
            },
        }
    };
}

/// All settings that share the budget.
const PARTS: [MemoryShare; 15] = [
    part!(store.block_cache_bytes, 1, 8, 2 * MIB),
    part!(store.meta_cache_bytes, 1, 4, 2 * MIB),
    part!(store.record_cache_bytes, 1, 3, MIB),
    part!(store.page_cache_bytes, 1, 1, MIB / 2),
    part!(store.unflushed_bytes_max, 1, 7, 4 * MIB),
    part!(server.answer_cache_bytes, 1, 3, MIB),
    // The minimum of 0 is a placeholder: `MemoryShare::minimum` returns the actual minimum.
    part!(server.bodies_bytes_max, 1, 7, 0),
    part!(catalog.metadata_cache_bytes, 1, 3, MIB),
    part!(catalog.listing_cache_bytes, 1, 1, MIB / 2),
    part!(catalog.manifest_cache_bytes, 1, 4, MIB),
    part!(catalog.plan_bytes_max, 1, 2, 4 * MIB),
    part!(catalog.search_index_bytes_max, 1, 6, 2 * MIB),
    // One file of the maximum size may be in memory while another one is decompressed.
    part!(catalog.file_bytes_max, 2, 8, 8 * MIB),
    part!(catalog.job_files_known_max, JOB_FILE_BYTES, 4, 2 * MIB),
    part!(authz.decisions_max, KIB, 3, MIB),
];

/// Maximum of `store.unflushed_bytes_max` if the budget is derived, too. A flush writes a quarter of
/// it in less time than commits take to fill the rest.
const UNFLUSHED_BYTES_MAX: u64 = 64 * MIB;
/// Caches of data that the server can read again from the state.
const CACHES_OF_STATE: [&str; 3] =
    ["store.block_cache_bytes", "server.answer_cache_bytes", "catalog.metadata_cache_bytes"];
/// Maximum of each of [`CACHES_OF_STATE`] if the budget is derived, too, and the state is in a local
/// directory. Linux also keeps the files of the state in its page cache.
const LOCAL_CACHE_BYTES_MAX: u64 = 24 * MIB;

impl MemoryShare {
    fn bytes(&self, settings: &Settings) -> u64 {
        (self.get)(settings).saturating_mul(self.unit_bytes)
    }

    /// Returns the minimum of a derived setting, in bytes. A body of the maximum size must always
    /// be accepted, so this size is the minimum of `server.bodies_bytes_max`.
    fn minimum(&self, settings: &Settings) -> u64 {
        match self.key {
            "server.bodies_bytes_max" => settings.server.body_bytes_max as u64,
            _ => self.bytes_min,
        }
    }

    /// Returns the maximum of a derived setting if the budget is derived, too, in bytes.
    fn maximum(&self, state_url: &str) -> u64 {
        let is_local = state_url.is_empty() || state_url.starts_with("file:");
        match self.key {
            "store.unflushed_bytes_max" => UNFLUSHED_BYTES_MAX,
            key if is_local && CACHES_OF_STATE.contains(&key) => LOCAL_CACHE_BYTES_MAX,
            _ => u64::MAX,
        }
    }
}

impl Settings {
    /// Returns the settings with the derived budget and shares instead of zeros.
    #[must_use]
    pub fn with_memory_shares(mut self) -> Self {
        let is_budget_derived = self.memory_bytes_max == 0;
        if is_budget_derived {
            self.memory_bytes_max = budget_of(available_bytes(Path::new("/")));
        }
        let (derived, explicit): (Vec<_>, Vec<_>) =
            PARTS.iter().partition(|part| (part.get)(&self) == 0);
        let minimums: u64 = derived.iter().map(|part| part.minimum(&self)).sum();
        let taken =
            explicit.iter().fold(minimums, |sum, part| sum.saturating_add(part.bytes(&self)));
        let left = self.memory_bytes_max.saturating_sub(taken);
        let weights: u64 = derived.iter().map(|part| part.weight).sum();
        for part in derived {
            let share = u128::from(left) * u128::from(part.weight) / u128::from(weights);
            let bytes = part.minimum(&self) + u64::try_from(share).unwrap_or(u64::MAX);
            let bytes_max = part.maximum(&self.state.url);
            let bytes = if is_budget_derived { bytes.min(bytes_max) } else { bytes };
            (part.set)(&mut self, bytes / part.unit_bytes);
        }
        self
    }

    /// Rejects a budget that is too small.
    pub fn check_memory(&self) -> Result<(), String> {
        match self.memory_bytes_max {
            1..BUDGET_BYTES_MIN => Err(format!(
                "memory_bytes_max: expected at least {BUDGET_BYTES_MIN} bytes (64 MiB), or 0 for a quarter of the \
                 machine's memory, got {}",
                self.memory_bytes_max
            )),
            _ => Ok(()),
        }
    }

    /// Returns a warning if the settings permit more memory than the budget.
    pub fn memory_warning(&self) -> Option<String> {
        let shared = self.clone().with_memory_shares();
        let permitted = PARTS.iter().map(|part| part.bytes(&shared)).fold(0, u64::saturating_add);
        let budget = shared.memory_bytes_max;
        if permitted <= budget {
            return None;
        }
        let explicit = PARTS.iter().filter(|part| (part.get)(self) != 0).map(|part| part.key);
        let mut explicit: Vec<_> = explicit.collect();
        explicit.push("server.body_bytes_max");
        Some(format!(
            "memory_bytes_max: the settings permit {permitted} bytes for caches, buffers, bodies and jobs, but the budget \
             is {budget} bytes. Raise the budget if the machine has enough memory, or lower {}",
            explicit.join(", ")
        ))
    }

    /// Whether the value of a key is derived from the budget.
    pub(super) fn is_memory_share(&self, key: &str) -> bool {
        PARTS.iter().any(|part| part.key == key && (part.get)(self) == 0)
    }
}

/// Whether the setting can be a share of the budget.
pub(super) fn is_share_of_memory(key: &str) -> bool {
    PARTS.iter().any(|part| part.key == key)
}

/// Returns the budget of a process with this much memory.
fn budget_of(available: Option<u64>) -> u64 {
    let part = available.map_or(u64::MAX, |bytes| bytes / MEMORY_DIVISOR);
    part.clamp(BUDGET_BYTES_MIN, DERIVED_BUDGET_BYTES_MAX)
}

/// Returns the memory that is available to this process: the memory of the machine, or the lowest
/// limit of its cgroups if that is less. Returns `None` if the system does not report it, as on all
/// systems except Linux.
fn available_bytes(root: &Path) -> Option<u64> {
    let machine = std::fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|meminfo| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(KIB)
    });
    let cgroups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = cgroups.lines().flat_map(|line| limits_of(root, line));
    machine.into_iter().chain(limits).min()
}

/// Returns the limits of a cgroup and of its ancestors, given a line of `/proc/self/cgroup`
/// (`ID:CONTROLLERS:PATH`). In a container, `PATH` may be a path of the host that is not mounted.
/// The container's own cgroup is then mounted at the root.
fn limits_of(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (mounts, file) = match controllers {
        "" => (["sys/fs/cgroup", "sys/fs/cgroup/unified"].as_slice(), "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => {
            (["sys/fs/cgroup/memory"].as_slice(), "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let limit = |directory: &Path| {
        // The file contains "max" if there is no limit. The root cgroup has no file.
        std::fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok()
    };
    let below = Path::new(path.trim_start_matches('/'));
    let found = mounts.iter().flat_map(|mount| {
        below
            .ancestors()
            .filter_map(|group| limit(&root.join(mount).join(group)))
            .collect::<Vec<_>>()
    });
    found.collect()
}

#[cfg(test)]
mod tests;
