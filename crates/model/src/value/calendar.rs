//! Calendar arithmetic and the ISO 8601 forms of dates and times. The calendar is the proleptic
//! Gregorian calendar, as in the reference implementation.

use std::fmt::Write;

/// Maximum absolute value of a parsed year. Every timestamp type has a smaller range.
const YEAR_MAX: i64 = 10_000_000;

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time, as it is written: days, and nanoseconds of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DayTime {
    pub(crate) days: i64,
    pub(crate) nanos: i64,
}

/// Returns the days from 1970-01-01 to a date.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that a leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns year, month and day of the date that is `days` after 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Parses `YYYY-MM-DD` to days since 1970-01-01. The year may have a sign and further digits.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (year_text, rest) = unsigned.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let has_sign = unsigned.len() < text.len();
    if year_text.len() < 4 || (year_text.len() > 4 && !has_sign) {
        return None;
    }
    let year = digits(year_text, 4..=9).filter(|year| *year <= YEAR_MAX)?;
    let year = if text.starts_with('-') { -year } else { year };
    let (month, day) = (digits(month, 2..=2)?, digits(day, 2..=2)?);
    let days = days_from_civil(year, month, day);
    // If the day does not exist in the month, the conversion back yields a different date.
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Parses `HH:MM[:SS[.fraction]]` to nanoseconds of the day.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2..=2).filter(|hour| *hour < 24)?;
    let minute = digits(parts.next()?, 2..=2).filter(|minute| *minute < 60)?;
    let second_text = parts.next();
    let second = match second_text {
        Some(second) => digits(second, 2..=2).filter(|second| *second < 60)?,
        None => 0,
    };
    let nanos = match (fraction, second_text) {
        (None, _) => 0,
        (Some(fraction), Some(_)) => {
            let value = digits(fraction, 1..=9)?;
            value * 10_i64.pow(9 - u32::try_from(fraction.len()).ok()?)
        }
        (Some(_), None) => return None,
    };
    let end = parts.next().is_none();
    end.then_some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

/// Parses `DATETTIME`, without an offset.
pub(crate) fn parse_local(text: &str) -> Option<DayTime> {
    let (date, time) = text.split_once('T')?;
    Some(DayTime { days: parse_date(date)?, nanos: parse_time(time)? })
}

/// Parses `DATETTIME` with an offset (`Z`, `+HH:MM`), and converts it to UTC.
pub(crate) fn parse_with_offset(text: &str) -> Option<DayTime> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return parse_local(local);
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let hours = digits(hours, 2..=2).filter(|hours| *hours <= 18)?;
    let minutes = digits(minutes, 2..=2).filter(|minutes| *minutes < 60)?;
    let DayTime { days, nanos } = parse_local(local)?;
    let nanos = nanos - sign * (hours * 60 + minutes) * 60 * 1_000_000_000;
    let per_day = SECONDS_PER_DAY * 1_000_000_000;
    Some(DayTime { days: days + nanos.div_euclid(per_day), nanos: nanos.rem_euclid(per_day) })
}

fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let valid = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

/// Writes a date. Years with more than four digits have a sign, as in ISO 8601.
pub(crate) fn format_date(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        ..0 => format!("-{:04}-{month:02}-{day:02}", -year),
        _ => format!("+{year}-{month:02}-{day:02}"),
    }
}

/// Writes a time of day with `digits` digits after the second.
pub(crate) fn format_time(units: i64, digits: u32) -> String {
    let per_second = 10_i64.pow(digits);
    let (seconds, fraction) = (units.div_euclid(per_second), units.rem_euclid(per_second));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{hour:02}:{minute:02}:{second:02}");
    let width = usize::try_from(digits).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = write!(text, ".{fraction:0width$}");
    text
}

/// Writes a timestamp of `digits` digits after the second, without an offset.
pub(crate) fn format_timestamp(units: i64, digits: u32) -> String {
    let per_day = SECONDS_PER_DAY * 10_i64.pow(digits);
    let (days, rest) = (units.div_euclid(per_day), units.rem_euclid(per_day));
    format!("{}T{}", format_date(days), format_time(rest, digits))
}
