//! Hashes of the settings that all members of a cluster must share.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::memory::is_share_of_memory;
use super::secrets::is_secret;
use super::settings::Settings;
use slateberg_base::hex::hex;

/// The sections that decide how the writer responds. The others describe the process, such as its
/// ports, its log and its telemetry.
const SECTIONS: [&str; 8] = [
    "authn",
    "authz",
    "catalog",
    "credentials",
    "default_warehouse",
    "encryption",
    "state",
    "warehouses",
];
/// Length of a hash, in bytes. A hash only has to differ if the settings differ by mistake.
const HASH_BYTES: usize = 8;

impl Settings {
    /// Returns a hash of each section that all members of a cluster must share. Secrets are not part
    /// of a hash, because other processes can read the hashes. Nor are shares of the memory, because
    /// machines have different memories.
    pub fn shared_hashes(&self) -> BTreeMap<String, String> {
        let all = serde_json::to_value(self).expect("settings are data");
        let hash = |section: &str| {
            let mut hash = Sha256::new();
            add(&mut hash, &mut vec![section.to_owned()], &all[section]);
            hex(&hash.finalize()[..HASH_BYTES])
        };
        SECTIONS.iter().map(|section| ((*section).to_owned(), hash(section))).collect()
    }
}

/// Adds the settings below a path in the order of their keys.
fn add(hash: &mut Sha256, path: &mut Vec<String>, value: &Value) {
    if let Value::Object(members) = value {
        for (name, value) in members {
            path.push(name.clone());
            add(hash, path, value);
            path.pop();
        }
        return;
    }
    let key = path.join(".");
    if is_share_of_memory(&key) {
        return;
    }
    let value = if is_secret(path) { String::new() } else { value.to_string() };
    for part in [key, value] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_changes_with_its_section_and_with_nothing_else() {
        let (one, mut other) = (Settings::default(), Settings::default());
        other.catalog.dropped_kept_seconds += 1;
        other.server.listen.set_port(1);
        let differing: Vec<_> = one
            .shared_hashes()
            .into_iter()
            .filter(|(section, hash)| other.shared_hashes()[section] != *hash)
            .map(|(section, _)| section)
            .collect();
        assert_eq!(differing, ["catalog"]);
    }

    #[test]
    fn secrets_and_shares_of_memory_do_not_change_a_hash() {
        let (one, mut other) = (Settings::default(), Settings::default());
        other.catalog.metadata_cache_bytes += 1;
        other.state.options.insert("aws_secret_access_key".to_owned(), "one".to_owned());
        let mut third = other.clone();
        third.state.options.insert("aws_secret_access_key".to_owned(), "two".to_owned());
        assert_eq!(one.shared_hashes()["catalog"], other.shared_hashes()["catalog"]);
        assert_eq!(third.shared_hashes(), other.shared_hashes());
    }
}
