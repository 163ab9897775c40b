//! Durations on the command line, such as `90d`, `24h` or `15m`.

use std::time::Duration;

const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
const HOUR_SECONDS: u64 = 60 * 60;

/// Parses a number with a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a number and a unit, such as 90d, 24h or 15m".to_owned())
}

/// Parses a duration in days.
pub(super) fn days(text: &str) -> Result<Duration, String> {
    whole(text, DAY_SECONDS)
}

/// Parses a duration in hours.
pub(super) fn hours(text: &str) -> Result<Duration, String> {
    whole(text, HOUR_SECONDS)
}

/// Parses a duration in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    whole(text, 1)
}

fn whole(text: &str, unit_seconds: u64) -> Result<Duration, String> {
    let number: Option<u64> = text.parse().ok();
    let seconds = number.and_then(|number| number.checked_mul(unit_seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a whole number".to_owned())
}
