//! [`SharedSettings`]: hashes by which members notice that their settings differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A hash of each section of the settings that all members of a cluster must share. Empty if the
/// version of the member does not publish hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedSettings(pub BTreeMap<String, String>);

impl SharedSettings {
    /// Whether the member publishes no hashes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the sections that differ from those of another member. Ignores sections
    /// that only one of the two versions knows.
    pub fn different_sections(&self, other: &Self) -> Vec<String> {
        let different = self.0.iter().filter(|(section, hash)| {
            other.0.get(section.as_str()).is_some_and(|others| others != *hash)
        });
        different.map(|(section, _)| section.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(sections: &[(&str, &str)]) -> SharedSettings {
        let sections = sections.iter().map(|(name, hash)| ((*name).into(), (*hash).into()));
        SharedSettings(sections.collect())
    }

    #[test]
    fn sections_that_both_members_know_are_compared() {
        let ours = settings(&[("authn", "1"), ("catalog", "2"), ("new", "3")]);
        let theirs = settings(&[("authn", "1"), ("catalog", "9"), ("old", "4")]);
        assert_eq!(ours.different_sections(&theirs), ["catalog"]);
        assert!(ours.different_sections(&SharedSettings::default()).is_empty());
    }
}
