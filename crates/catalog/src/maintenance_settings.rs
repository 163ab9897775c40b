//! The settings and properties that select the scheduled maintenance of tables.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use slateberg_model::expiry::{
    MAX_REF_AGE_PROPERTY, MAX_SNAPSHOT_AGE_PROPERTY, MIN_SNAPSHOTS_PROPERTY,
};
use slateberg_model::members::brief;

/// Property of tables and namespaces: whether the server expires their snapshots.
pub(crate) const EXPIRE_SNAPSHOTS: &str = "slateberg.maintenance.expire-snapshots";
/// Property of tables and namespaces: whether the server rewrites their manifests.
pub(crate) const REWRITE_MANIFESTS: &str = "slateberg.maintenance.rewrite-manifests";

/// Property of tables and namespaces: whether the server searches for their orphans. See
/// [`OrphanRemoval`].
pub(crate) const REMOVE_ORPHANS: &str = "slateberg.maintenance.remove-orphans";

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
    /// Whether the server maintains a table. `properties` are the [`effective`]
    /// properties of the table. A value that is not a boolean counts as `false`.
    pub(crate) fn includes(self, property: &str, properties: &BTreeMap<String, String>) -> bool {
        let set = properties.get(property);
        match self {
            Self::Off => false,
            Self::Declared => set.is_some_and(|value| value.eq_ignore_ascii_case("true")),
            Self::All => set.is_none_or(|value| value.eq_ignore_ascii_case("true")),
        }
    }

    /// Returns how the server removes the orphans of a table. Even with [`All`](Self::All), it
    /// searches only if the property is set, because it cannot know whose files these are.
    pub(crate) fn orphan_removal(self, properties: &BTreeMap<String, String>) -> OrphanRemoval {
        match properties.get(REMOVE_ORPHANS).map(|value| value.to_ascii_lowercase()).as_deref() {
            _ if self == Self::Off => OrphanRemoval::Off,
            Some("true") => OrphanRemoval::Delete,
            Some("report") => OrphanRemoval::Report,
            _ => OrphanRemoval::Off,
        }
    }
}

/// The removal of the orphans of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanRemoval {
    /// The server does not search for orphans.
    Off,
    /// Each search is a dry run (`report`).
    Report,
    /// The searches after the first dry run delete the orphans (`true`).
    Delete,
}

/// Property of tables, namespaces and warehouses: minimum number of small manifests that a scheduled
/// rewrite merges.
pub(crate) const MIN_COUNT_PROPERTY: &str = "commit.manifest.min-count-to-merge";

/// The properties that a table inherits from its namespace and from its warehouse.
const INHERITED: [&str; 7] = [
    EXPIRE_SNAPSHOTS,
    REWRITE_MANIFESTS,
    REMOVE_ORPHANS,
    MAX_SNAPSHOT_AGE_PROPERTY,
    MIN_SNAPSHOTS_PROPERTY,
    MAX_REF_AGE_PROPERTY,
    MIN_COUNT_PROPERTY,
];

/// Returns the properties that decide about the maintenance of a table. For each property, the
/// innermost level decides. The levels are the warehouse, the namespaces from the outermost to the
/// innermost, and the table.
pub(crate) fn effective<'a>(
    levels: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut effective = BTreeMap::new();
    for level in levels {
        let set = INHERITED.iter().filter_map(|key| level.get_key_value(*key));
        effective.extend(set.map(|(key, value)| (key.clone(), value.clone())));
    }
    effective
}

/// Rejects maintenance properties of a warehouse that have an unknown name or an invalid value.
pub fn check_properties(properties: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in properties {
        let (valid, expected) = match key.as_str() {
            EXPIRE_SNAPSHOTS | REWRITE_MANIFESTS => {
                (["true", "false"].contains(&value.as_str()), "true or false")
            }
            REMOVE_ORPHANS => {
                (["true", "report", "false"].contains(&value.as_str()), "true, report or false")
            }
            key if INHERITED.contains(&key) => {
                (value.parse::<i64>().is_ok_and(|it| it >= 0), "a number of at least 0")
            }
            key => {
                return Err(format!(
                    "Invalid maintenance property '{}': expected one of {}",
                    brief(key),
                    INHERITED.join(", ")
                ));
            }
        };
        if !valid {
            return Err(format!(
                "Invalid maintenance property {key}: expected {expected}, got '{}'",
                brief(value)
            ));
        }
    }
    Ok(())
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
        let level = |value: &str| BTreeMap::from([(EXPIRE_SNAPSHOTS.to_owned(), value.to_owned())]);
        let (yes, no, none) = (level("TRUE"), level("false"), BTreeMap::new());
        let includes = |tables: MaintainedTables, levels: [&BTreeMap<_, _>; 2]| {
            tables.includes(EXPIRE_SNAPSHOTS, &effective(levels.into_iter()))
        };
        use MaintainedTables::{All, Declared, Off};
        assert!(includes(Declared, [&no, &yes]) && includes(Declared, [&yes, &none]));
        assert!(!includes(Declared, [&yes, &no]) && !includes(Declared, [&none, &none]));
        assert!(includes(All, [&none, &none]) && !includes(All, [&no, &none]));
        assert!(!includes(All, [&none, &level("ture")]) && !includes(Off, [&yes, &yes]));
    }

    #[test]
    fn orphans_are_removed_only_where_a_property_says_so() {
        use MaintainedTables::{All, Declared, Off};
        let removal = |tables: MaintainedTables, value: &str| {
            tables.orphan_removal(&BTreeMap::from([(REMOVE_ORPHANS.to_owned(), value.to_owned())]))
        };
        assert_eq!(All.orphan_removal(&BTreeMap::new()), OrphanRemoval::Off);
        assert_eq!(removal(Declared, "true"), OrphanRemoval::Delete);
        assert_eq!(removal(All, "report"), OrphanRemoval::Report);
        assert_eq!(removal(All, "yes"), OrphanRemoval::Off);
        assert_eq!(removal(Off, "true"), OrphanRemoval::Off);
    }

    #[test]
    fn maintenance_properties_of_warehouses_are_checked() {
        let check = |key: &str, value: &str| {
            check_properties(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        for (key, value) in
            [(REMOVE_ORPHANS, "report"), (EXPIRE_SNAPSHOTS, "true"), (MIN_COUNT_PROPERTY, "0")]
        {
            assert_eq!(check(key, value), Ok(()), "{key}");
        }
        for (key, value) in [
            ("owner", "etl"),
            (REMOVE_ORPHANS, "yes"),
            (EXPIRE_SNAPSHOTS, "report"),
            (MAX_SNAPSHOT_AGE_PROPERTY, "-1"),
            (MAX_REF_AGE_PROPERTY, "7d"),
        ] {
            assert!(check(key, value).is_err(), "{key}={value}");
        }
    }
}
