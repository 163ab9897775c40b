//! Every setting with its value and where that comes from; secrets are hidden.

use serde_json::Value;

use super::load::Read;
use super::place::Place;
use super::secrets::is_secret;

/// What is shown in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// A setting that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its key, with dots between the parts.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where that stands.
    pub place: Place,
}

impl Read {
    /// Every setting that holds, in the order of their keys, with the values of those that are
    /// derived. Tables without anything in them are left out.
    pub fn settings_with_places(&self) -> Vec<Setting> {
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
            let place = if self.settings.is_memory_share(&key) {
                Place::MemoryShare
            } else {
                self.place(path)
            };
            found.push(Setting { key, value, place });
            return;
        };
        for (name, value) in members {
            path.push(name);
            self.collect(path, value, found);
            path.pop();
        }
    }
}
