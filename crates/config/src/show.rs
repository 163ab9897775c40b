//! Lists all settings with their values and sources. Secrets are hidden.

use serde_json::Value;

use super::load::LoadedSettings;
use super::secrets::is_secret;
use super::setting_source::SettingSource;

/// Replacement of a secret.
const HIDDEN: &str = "(hidden)";

/// An effective setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The dotted key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// The source.
    pub source: SettingSource,
}

impl LoadedSettings {
    /// Returns all effective settings in the order of their keys, including derived values. Omits
    /// empty tables.
    pub fn settings_with_sources(&self) -> Vec<Setting> {
        let shared = self.settings.clone().with_memory_shares();
        let all = serde_json::to_value(&shared).expect("settings are data");
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), all, &mut found);
        found
    }

    fn collect(&self, path: &mut Vec<String>, value: Value, found: &mut Vec<Setting>) {
        let Value::Object(members) = value else {
            let value = if is_secret(path) && value != Value::String(String::new()) {
                Value::String(HIDDEN.to_owned())
            } else {
                value
            };
            let key = path.join(".");
            let source = if self.settings.is_memory_share(&key) {
                SettingSource::MemoryShare
            } else {
                self.source(path)
            };
            found.push(Setting { key, value, source });
            return;
        };
        for (name, value) in members {
            path.push(name);
            self.collect(path, value, found);
            path.pop();
        }
    }
}
