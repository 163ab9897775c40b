//! Resource usage of a server's processes, from Linux.
//!
//! A server consists of one or more processes and all of their descendants. This includes a
//! database of the server that has one process per connection.

use std::collections::BTreeMap;
use std::fs;

/// Clock ticks per second in `/proc`: 100 on all supported systems.
const TICKS_PER_SECOND: f64 = 100.0;
/// Maximum rounding error of ticks, at both ends of a measurement.
const TICKS_LOST_SECONDS: f64 = 2.0 / TICKS_PER_SECOND;
/// Fields of `/proc/PID/stat`, counted after the command's name.
const PARENT_FIELD: usize = 1;
const UTIME_FIELD: usize = 11;
/// Number of fields with CPU times: `utime`, `stime`, and the same two of terminated children.
const TIME_FIELDS: usize = 4;

/// Usage of some processes at one moment.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// User and system CPU time since the start of the processes, in seconds, measured in clock
    /// ticks.
    ticks_seconds: f64,
    /// CPU time of each thread, in nanoseconds.
    threads_ns: BTreeMap<u32, u64>,
    /// Resident memory, in MiB.
    pub rss_mib: f64,
    /// Sum of the processes' peaks of resident memory since the reset, in MiB.
    pub peak_mib: f64,
}

impl Usage {
    /// CPU seconds since `earlier`.
    pub fn cpu_seconds_since(&self, earlier: &Self) -> f64 {
        let ticks = self.ticks_seconds - earlier.ticks_seconds;
        if !earlier.threads_ns.keys().all(|thread| self.threads_ns.contains_key(thread)) {
            return ticks;
        }
        let before: u64 = earlier.threads_ns.values().sum();
        let after: u64 = self.threads_ns.values().sum();
        let exact = after.saturating_sub(before) as f64 / 1e9;
        // Only the ticks include the time of threads that started and ended between the two
        // moments.
        exact.max(ticks - TICKS_LOST_SECONDS)
    }
}

/// Reads the usage of these processes and their descendants. `None` without processes or `/proc`.
pub fn usage(pids: &[u32]) -> Option<Usage> {
    let mut usage = Usage::default();
    for pid in process_tree(pids) {
        add_process(pid, &mut usage);
    }
    (!usage.threads_ns.is_empty()).then_some(usage)
}

/// Resets the peaks of memory, if permitted.
pub fn reset_peaks(pids: &[u32]) {
    for pid in process_tree(pids) {
        // If the reset fails, the reported peak is that since the start of the process.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

/// Returns the usage of this process.
pub fn own_usage() -> Usage {
    usage(&[std::process::id()]).unwrap_or_default()
}

/// Maximum number of open files of this process.
pub fn open_files_max() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn add_process(pid: u32, usage: &mut Usage) -> Option<()> {
    let ticks: f64 = stat_fields(pid)?
        .iter()
        .skip(UTIME_FIELD)
        .take(TIME_FIELDS)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    usage.ticks_seconds += ticks / TICKS_PER_SECOND;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        let scheduled = fs::read_to_string(thread.path().join("schedstat")).ok();
        let on_cpu = scheduled.and_then(|text| text.split_whitespace().next()?.parse().ok());
        if let Some((number, on_cpu)) = number.zip(on_cpu) {
            usage.threads_ns.insert(number, on_cpu);
        }
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    usage.rss_mib += status_mib(&status, "VmRSS:");
    usage.peak_mib += status_mib(&status, "VmHWM:");
    Some(())
}

fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may contain anything, so the fields are counted
    // after it.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(ToOwned::to_owned).collect())
}

fn status_mib(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// Returns these processes and all of their descendants.
fn process_tree(pids: &[u32]) -> Vec<u32> {
    if pids.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat_fields(pid)?.get(PARENT_FIELD)?.parse().ok()?)))
        .collect();
    let mut process_tree = pids.to_vec();
    let mut at = 0;
    while at < process_tree.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == process_tree[at]);
        let new: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        process_tree.extend(new.into_iter().filter(|pid| !pids.contains(pid)));
        at += 1;
    }
    process_tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_with(ticks_seconds: f64, threads: &[(u32, u64)]) -> Usage {
        Usage { ticks_seconds, threads_ns: threads.iter().copied().collect(), ..Usage::default() }
    }

    #[test]
    fn cpu_time_is_exact_while_every_thread_lives() {
        let used = usage_with(1.01, &[(1, 7_000_000), (2, 2_000_000)]);
        assert!((used.cpu_seconds_since(&usage_with(1.0, &[(1, 3_000_000)])) - 0.006).abs() < 1e-9);
    }

    #[test]
    fn cpu_time_of_ended_threads_is_counted_in_ticks() {
        let used = usage_with(1.5, &[(1, 7_000_000)]);
        assert!((used.cpu_seconds_since(&usage_with(1.0, &[(1, 0), (2, 5)])) - 0.5).abs() < 1e-9);
        assert!((used.cpu_seconds_since(&usage_with(1.0, &[(1, 0)])) - 0.48).abs() < 1e-9);
    }

    #[test]
    fn own_usage_is_not_zero() {
        let own = own_usage();
        assert!(own.rss_mib > 0.0 && own.peak_mib >= own.rss_mib, "{own:?}");
    }
}
