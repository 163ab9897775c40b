//! Determines by which attributes the conditions of policies distinguish the names of a page. Names
//! with equal values of these attributes share one evaluation.
//!
//! All names of a page share their parents and the principal. They differ in name, owner, location
//! and tags, and most conditions use one or two tags.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{ConditionUse, Conditions};
use super::resource::Node;

/// Attributes that the conditions of policies use to distinguish names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Distinctions {
    name: bool,
    owner: bool,
    location: bool,
    tags: BTreeSet<String>,
    /// Whether a condition computes the key of a tag. If so, all tags matter.
    all_tags: bool,
}

/// The values of the attributes in [`Distinctions`] for one name. Attributes that are not in
/// [`Distinctions`] are `None`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DistinctValues<'n> {
    name: Option<&'n str>,
    owner: Option<&'n str>,
    location: Option<&'n str>,
    tags: Vec<Option<&'n str>>,
    all_tags: Option<&'n BTreeMap<String, String>>,
}

impl Distinctions {
    /// Returns the attributes by which a policy's conditions distinguish names.
    pub(super) fn of(conditions: &Conditions) -> Self {
        let mut all = Self::default();
        match conditions.uses() {
            Some(uses) => uses.into_iter().for_each(|one| all.add(one)),
            None => all.add_everything(),
        }
        all
    }

    /// Adds the attributes in `other`.
    pub(super) fn extend(&mut self, other: &Self) {
        self.name |= other.name;
        self.owner |= other.owner;
        self.location |= other.location;
        self.all_tags |= other.all_tags;
        self.tags.extend(other.tags.iter().cloned());
    }

    /// Returns the values of these attributes for a name.
    pub(super) fn facts<'n>(&self, node: &'n Node) -> DistinctValues<'n> {
        let attributes = node.attributes();
        let tag = |key: &String| attributes.properties.get(key).map(String::as_str);
        DistinctValues {
            name: self.name.then_some(node.name.as_str()),
            owner: attributes.owner.as_deref().filter(|_| self.owner),
            location: attributes.location.as_deref().filter(|_| self.location),
            tags: self.tags.iter().map(tag).collect(),
            all_tags: self.all_tags.then_some(&attributes.properties),
        }
    }

    fn add_everything(&mut self) {
        (self.name, self.owner, self.location, self.all_tags) = (true, true, true, true);
    }

    fn add(&mut self, one: ConditionUse<'_>) {
        match one {
            ConditionUse::Path | ConditionUse::Attribute("resource", Some("name")) => {
                self.name = true
            }
            ConditionUse::Attribute("resource", Some("owner")) => self.owner = true,
            ConditionUse::Attribute("resource", Some("location")) => self.location = true,
            ConditionUse::Tag(Some(key)) => {
                self.tags.insert(key.to_owned());
            }
            ConditionUse::Tag(None) => self.all_tags = true,
            // All names of a page have the same type and parents.
            ConditionUse::Kind
            | ConditionUse::Attribute("resource", Some("namespace" | "parent" | "warehouse")) => {}
            ConditionUse::Variable("principal" | "action" | "context")
            | ConditionUse::Attribute("principal" | "action" | "context", _) => {}
            ConditionUse::Variable(_) | ConditionUse::Attribute(..) => self.add_everything(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(condition: &str) -> Distinctions {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        let policy = cedar_policy::Policy::parse(None, text);
        Distinctions::of(&Conditions::of(&policy.expect("the policy is well-formed")))
    }

    #[track_caller]
    fn assert_all<const N: usize>(conditions: [&str; N], expected: &Distinctions) {
        for condition in conditions {
            assert_eq!(of(condition), *expected, "{condition}");
        }
    }

    #[test]
    fn conditions_distinguish_by_the_attributes_that_they_use() {
        let none = Distinctions::default();
        let conditions = [
            "principal.name == \"ann\"",
            "context.authentication == \"jwt\"",
            "resource is Table",
            "resource.namespace.hasTag(\"pii\")",
            "resource has warehouse && resource.warehouse == Warehouse::\"w\"",
        ];
        assert_all(conditions, &none);
        let name = Distinctions { name: true, ..none.clone() };
        let conditions = [
            "resource.name like \"tmp_*\"",
            "resource == Table::\"w/a/t\"",
            "resource in Namespace::\"w/a\"",
            "resource is Table in Namespace::\"w/a\"",
        ];
        assert_all(conditions, &name);
        assert_eq!(
            of("resource has owner && resource.owner == principal.name"),
            Distinctions { owner: true, ..none.clone() }
        );
        assert_eq!(
            of("resource.hasTag(\"a\") && resource.getTag(\"b\") == \"c\""),
            Distinctions { tags: ["a", "b"].map(str::to_owned).into(), ..none.clone() }
        );
        assert_eq!(
            of("resource.hasTag(principal.name)"),
            Distinctions { all_tags: true, ..none.clone() }
        );
        assert_eq!(
            of("resource.hasTag(resource.location)"),
            Distinctions { all_tags: true, location: true, ..none }
        );
    }

    #[test]
    fn use_of_a_whole_variable_distinguishes_everything() {
        let mut everything = Distinctions::default();
        everything.add_everything();
        let conditions = [
            "[resource].contains(Table::\"w/a/t\")",
            "Table::\"w/a/t\" == resource",
            "{Value: resource}.Value.name == \"t\"",
            "(if principal has name then resource else resource).name == \"t\"",
        ];
        assert_all(conditions, &everything);
    }
}
