//! What the server's process has used, as Linux counts it.

use std::fs;

/// Clock ticks of a second in `/proc`: 100 on every Linux that there is.
const TICKS_PER_SECOND: f64 = 100.0;
/// Where the fields of `/proc/PID/stat` that follow the command's name begin to count.
const UTIME_FIELD: usize = 11;

/// The state of a process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Seconds of CPU time, user and system, since it began.
    pub cpu_seconds: f64,
    /// The most resident memory that it ever had, in MiB.
    pub peak_mib: f64,
}

/// Reads a process's usage; none if there is no such process, or no `/proc`.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything, so the fields count from behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: f64 = fields
        .split_whitespace()
        .skip(UTIME_FIELD)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak_kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())?;
    Some(Usage { cpu_seconds: ticks / TICKS_PER_SECOND, peak_mib: peak_kib / 1024.0 })
}
