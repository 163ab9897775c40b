//! Resource usage of the process. Linux reports it in `/proc`; other systems have no such metrics.

use std::fs;

use super::collection::Collection;

/// Clock ticks per second in `/proc` (`USER_HZ`), independent of the kernel's timer frequency.
const TICKS_PER_SECOND: u64 = 100;
/// Positions of fields in `/proc/self/stat`, counted from the first field after the command's name.
const USER_TIME_FIELD: usize = 11;
const SYSTEM_TIME_FIELD: usize = 12;
const THREADS_FIELD: usize = 17;
const START_FIELD: usize = 19;

/// Adds the metrics to the collection.
pub fn collect(into: &mut Collection) {
    // The process may be a program that embeds the catalog, and the system may have no /proc. A
    // number that cannot be read has no series.
    let mut gauge = |name: &str, unit, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            into.gauge(name, unit, help, Vec::new(), value as f64);
        }
    };
    gauge("process.resident_memory", "By", "Resident memory of the process.", resident_bytes());
    gauge("process.open_fds", "1", "Open file descriptors.", open_descriptors());
    gauge("process.max_fds", "1", "Maximum number of open file descriptors.", descriptors_max());
    let Some(stat) = stat_fields() else { return };
    let field = |at: usize| stat.get(at)?.parse::<u64>().ok();
    gauge("process.threads", "1", "Threads of the process.", field(THREADS_FIELD));
    let start = field(START_FIELD).zip(boot_seconds());
    let start = start.map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND);
    let help = "Start of the process, in seconds since the Unix epoch.";
    gauge("process.start_time", "s", help, start);
    if let Some((user, system)) = field(USER_TIME_FIELD).zip(field(SYSTEM_TIME_FIELD)) {
        let seconds = (user + system) / TICKS_PER_SECOND;
        let help = "User and system CPU time of the process, in whole seconds.";
        into.counter("process.cpu", "s", help, Vec::new(), seconds);
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn open_descriptors() -> Option<u64> {
    // One of the descriptors is that of the directory itself.
    let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(count).ok()
}

fn descriptors_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn stat_fields() -> Option<Vec<String>> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name is in parentheses and may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(ToOwned::to_owned).collect())
}

fn boot_seconds() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
