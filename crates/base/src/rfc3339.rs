//! Times in the format of RFC 3339, such as `2026-11-22T05:04:21Z`.

use chrono::{DateTime, SecondsFormat};

/// Parses a time to milliseconds since the Unix epoch. `None` if the string is not a valid time.
pub fn parse(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}

/// Formats milliseconds since the Unix epoch, in UTC.
pub fn format(ms: i64) -> String {
    format_with(ms, SecondsFormat::Millis)
}

/// Formats a time in whole seconds, as signatures of object stores require.
pub fn format_seconds(ms: i64) -> String {
    format_with(ms, SecondsFormat::Secs)
}

fn format_with(ms: i64, precision: SecondsFormat) -> String {
    DateTime::from_timestamp_millis(ms).unwrap_or_default().to_rfc3339_opts(precision, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_round_trips_in_rfc3339() {
        assert_eq!(format(1_792_649_061_250), "2026-10-22T06:04:21.250Z");
        assert_eq!(format_seconds(1_792_649_061_250), "2026-10-22T06:04:21Z");
        assert_eq!(parse("2026-10-22T06:04:21.250Z"), Some(1_792_649_061_250));
        assert_eq!(parse("2026-10-22T08:04:21.25+02:00"), Some(1_792_649_061_250));
        for wrong in ["", "yesterday", "2026-10-22", "2026-10-22T06:04:21", "1792649061250"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
