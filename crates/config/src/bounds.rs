//! Bounds of numbers in the settings.
//!
//! The unit in a setting's name determines its maximum. The minimum is 1, except for settings in
//! [`MINIMA`] and settings whose default is 0.

use serde_json::Value;

use super::settings::Settings;
use slateberg_base::setting::InvalidSetting;

/// The maximum of each setting whose name contains one of these parts. Greater values would
/// overflow sums of bytes or times, or make a record too long.
const MAXIMA: [(&str, u64); 5] = [
    // All kept reports of a table are in one record.
    ("metrics_reports_kept_max", 1000),
    ("_bytes", 1 << 50),
    ("_days", 3_650),
    ("_ms", 24 * 60 * 60 * 1000),
    ("_seconds", 10 * 365 * 24 * 60 * 60),
];
/// The maximum of counts.
const COUNT_MAX: u64 = 1_000_000_000;

/// Settings with a minimum other than 1. Where 0 is permitted, it disables a cache, a delay or a
/// limit. If a setting counts items, 0 permits none of them.
const MINIMA: [(&str, u64); 37] = [
    ("authn.clock_leeway_seconds", 0),
    ("authn.failure_delay_ms_max", 0),
    ("authn.failures_before_delay", 0),
    ("authn.issuer_refetch_pause_seconds", 0),
    // With a lower limit, API keys would be rejected.
    ("authn.token_bytes_max", 256),
    ("authn.verified_tokens_max", 0),
    ("authz.decisions_max", 0),
    ("authz.grants_max", 0),
    ("authz.policies_max", 0),
    ("authz.policy_reload_seconds", 0),
    ("catalog.append_rebase_turn_ms", 0),
    ("catalog.change_log_entries_max", 0),
    ("catalog.dropped_kept_seconds", 0),
    ("catalog.file_deletions_per_second_max", 0),
    ("catalog.jobs_kept_max", 0),
    ("catalog.jobs_kept_seconds", 0),
    ("catalog.listing_cache_bytes", 0),
    ("catalog.manifest_cache_bytes", 0),
    ("catalog.metadata_cache_bytes", 0),
    ("catalog.metrics_reports_kept_max", 0),
    ("catalog.orphan_age_seconds", 0),
    ("catalog.orphan_age_seconds_min", 0),
    ("catalog.purge_wait_ms", 0),
    ("catalog.search_index_bytes_max", 0),
    ("catalog.vended_credentials_max", 0),
    ("catalog.warehouses_max", 0),
    ("log.slow_request_ms", 0),
    ("server.answer_cache_bytes", 0),
    ("server.compression_bytes_min", 0),
    ("server.cors.max_age_seconds", 0),
    ("server.drain_seconds_max", 0),
    ("server.watchers_max", 0),
    ("store.page_cache_bytes", 0),
    ("store.record_cache_bytes", 0),
    ("store.warm_up_seconds_max", 0),
    ("telemetry.otlp.flush_ms_max", 0),
    ("webhooks.max", 0),
];

/// Sections that are checked elsewhere.
const ELSEWHERE: [&str; 2] = ["credentials", "warehouses"];

/// Returns all numbers that are out of bounds.
pub(super) fn problems(settings: &Settings) -> Vec<InvalidSetting> {
    let defaults = numbers(&Settings::default());
    let default_of = |key: &str| defaults.iter().find(|(name, _)| name == key).map(|(_, it)| *it);
    let found = numbers(settings).into_iter().filter_map(|(key, value)| {
        let (min, max) = (minimum(&key, default_of(&key)), maximum(&key));
        let message = match value {
            _ if value < min => format!("expected at least {min}, got {value}"),
            _ if value > max => format!("expected at most {max}, got {value}"),
            _ => return None,
        };
        Some(InvalidSetting::new(key, message))
    });
    found.collect()
}

fn minimum(key: &str, default: Option<u64>) -> u64 {
    let listed = MINIMA.iter().find(|(name, _)| *name == key);
    match (listed, default) {
        (Some((_, minimum)), _) => *minimum,
        (None, Some(0)) => 0,
        (None, _) => 1,
    }
}

fn maximum(key: &str) -> u64 {
    // `requests_per_second` counts requests, not seconds.
    let is_rate = key.contains("_per_");
    let name = key.rsplit('.').next().unwrap_or(key);
    let unit = MAXIMA.iter().find(|(part, _)| !is_rate && name.contains(part));
    unit.map_or(COUNT_MAX, |(_, maximum)| *maximum)
}

/// Returns all whole numbers in the settings, with their keys.
fn numbers(settings: &Settings) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    if let Ok(Value::Object(sections)) = serde_json::to_value(settings) {
        for (name, value) in sections {
            if !ELSEWHERE.contains(&name.as_str()) {
                collect(name, &value, &mut found);
            }
        }
    }
    found
}

fn collect(key: String, value: &Value, found: &mut Vec<(String, u64)>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| collect(format!("{key}.{name}"), value, found))
        }
        value => found.extend(value.as_u64().map(|number| (key, number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the settings with every number replaced by `number`.
    fn all_set_to(number: u64) -> Settings {
        let mut data = serde_json::to_value(Settings::default()).expect("settings are data");
        replace(&mut data, number);
        serde_json::from_value(data).expect("numbers stay numbers")
    }

    fn replace(value: &mut Value, number: u64) {
        match value {
            Value::Object(members) => members.values_mut().for_each(|it| replace(it, number)),
            value if value.is_u64() => *value = number.into(),
            _ => {}
        }
    }

    fn keys(settings: &Settings) -> Vec<String> {
        problems(settings).into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn the_defaults_are_within_their_bounds() {
        assert_eq!(problems(&Settings::default()), []);
    }

    #[test]
    fn every_number_has_a_maximum_and_most_have_a_minimum_of_one() {
        let all: Vec<_> = numbers(&Settings::default()).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys(&all_set_to(u32::MAX.into())).len(), {
            let of_counts = |key: &&String| maximum(key) < u64::from(u32::MAX);
            all.iter().filter(of_counts).count()
        });
        let rejected_keys = keys(&all_set_to(0));
        for key in ["catalog.commit_deadline_ms", "server.requests_in_flight_max"] {
            assert!(rejected_keys.iter().any(|it| it == key), "{key} is 0");
        }
        for (name, _) in MINIMA {
            assert!(all.iter().any(|key| key == name), "there is no number {name}");
        }
    }

    #[test]
    fn number_out_of_bounds_is_reported_with_the_bound() {
        let mut settings = Settings::default();
        settings.catalog.commit_deadline_ms = 0;
        settings.server.body_seconds_max = u64::MAX;
        let found: Vec<_> = problems(&settings).iter().map(ToString::to_string).collect();
        let too_large =
            "server.body_seconds_max: expected at most 315360000, got 18446744073709551615";
        assert_eq!(found, [too_large, "catalog.commit_deadline_ms: expected at least 1, got 0"]);
    }
}
