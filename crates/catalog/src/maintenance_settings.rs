//! The settings and properties that select the scheduled maintenance of tables.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Property of tables and namespaces: whether the server expires their snapshots.
pub(crate) const EXPIRE_SNAPSHOTS: &str = "slateberg.maintenance.expire-snapshots";
/// Property of tables and namespaces: whether the server rewrites their manifests.
pub(crate) const REWRITE_MANIFESTS: &str = "slateberg.maintenance.rewrite-manifests";

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;
/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;

/// The tables that the server maintains on a schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaintainedTables {
    /// No tables.
    #[default]
    Off,
    /// Tables whose properties, or the properties of their namespace, enable it.
    Declared,
    /// All tables, unless their properties, or the properties of their namespace, disable it.
    All,
}

impl MaintainedTables {
    /// Whether the server maintains a table. `levels` are the properties of its namespace, from the
    /// outermost level to the innermost, and of the table itself. A value that is not a boolean
    /// counts as `false`.
    pub(crate) fn includes<'a>(
        self,
        property: &str,
        levels: impl DoubleEndedIterator<Item = &'a BTreeMap<String, String>>,
    ) -> bool {
        let set = || levels.rev().find_map(|level| level.get(property));
        match self {
            Self::Off => false,
            Self::Declared => set().is_some_and(|value| value.eq_ignore_ascii_case("true")),
            Self::All => set().is_none_or(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

/// A part of each day, in minutes since midnight UTC. It may include midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DailyWindow {
    first: u16,
    end: u16,
}

impl DailyWindow {
    /// A window that includes no time.
    pub(crate) const NEVER: Self = Self { first: 0, end: 0 };

    /// Whether the window includes a time, in milliseconds since 1970.
    pub(crate) fn includes(self, now_ms: i64) -> bool {
        let minute = now_ms.div_euclid(MINUTE_MS).rem_euclid(i64::from(DAY_MINUTES));
        let (first, end) = (i64::from(self.first), i64::from(self.end));
        if first <= end { (first..end).contains(&minute) } else { minute >= first || minute < end }
    }
}

impl FromStr for DailyWindow {
    type Err = ();

    /// Parses a window such as `22:00-04:30`. An empty string is the whole day.
    fn from_str(text: &str) -> Result<Self, ()> {
        if text.is_empty() {
            return Ok(Self { first: 0, end: DAY_MINUTES });
        }
        let time = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let digits = |it: &str| it.len() == 2 && it.bytes().all(|byte| byte.is_ascii_digit());
            let number = |it: &str| digits(it).then(|| it.parse::<u16>().ok()).flatten();
            let (hour, minute) = (number(hour)?, number(minute)?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let (first, end) = text.split_once('-').ok_or(())?;
        match (time(first), time(end)) {
            (Some(first), Some(end)) if first != end => Ok(Self { first, end }),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64, minute: i64) -> i64 {
        1_700_006_400_000 + (hour * 60 + minute) * MINUTE_MS
    }

    #[test]
    fn window_includes_its_minutes_also_over_midnight() {
        assert_eq!(at(0, 0).rem_euclid(24 * 60 * MINUTE_MS), 0);
        let night: DailyWindow = "22:00-04:30".parse().expect("a window");
        let included =
            [(22, 0), (23, 59), (0, 0), (4, 29)].map(|it| night.includes(at(it.0, it.1)));
        assert_eq!(included, [true; 4]);
        assert!(!night.includes(at(4, 30)) && !night.includes(at(21, 59)));
        let day: DailyWindow = "08:00-09:00".parse().expect("a window");
        assert!(day.includes(at(8, 0)) && !day.includes(at(9, 0)) && !day.includes(at(7, 59)));
        let always: DailyWindow = "".parse().expect("the whole day");
        assert!(always.includes(at(0, 0)) && always.includes(at(23, 59)));
    }

    #[test]
    fn malformed_windows_are_rejected() {
        for text in ["8:00-09:00", "08:00", "08:00-08:00", "24:00-01:00", "08:60-09:00", "a-b", "-"]
        {
            assert_eq!(text.parse::<DailyWindow>(), Err(()), "{text}");
        }
    }

    #[test]
    fn innermost_property_decides_about_a_table() {
        let level = |value: &str| BTreeMap::from([("p".to_owned(), value.to_owned())]);
        let (yes, no, none) = (level("TRUE"), level("false"), BTreeMap::new());
        let includes = |tables: MaintainedTables, levels: [&BTreeMap<_, _>; 2]| {
            tables.includes("p", levels.into_iter())
        };
        use MaintainedTables::{All, Declared, Off};
        assert!(includes(Declared, [&no, &yes]) && includes(Declared, [&yes, &none]));
        assert!(!includes(Declared, [&yes, &no]) && !includes(Declared, [&none, &none]));
        assert!(includes(All, [&none, &none]) && !includes(All, [&no, &none]));
        assert!(!includes(All, [&none, &level("ture")]) && !includes(Off, [&yes, &yes]));
    }
}
