//! What conditions tell names of one page apart by: so that names of which all of that is the same are asked
//! about once, and not a thousand times.
//!
//! What a name is in is the same for all names of a page, and so is whoever asks. What is left of a name is
//! what it is called, its owner, its location, and its tags; most conditions look at one or two tags.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::resource::Node;

/// What the conditions of a policy, or of several, tell names apart by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Distinctions {
    name: bool,
    owner: bool,
    location: bool,
    tags: BTreeSet<String>,
    /// Tags that the condition works out itself.
    all_tags: bool,
}

/// What of a name conditions can tell it apart from others by.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Facts<'n> {
    name: Option<&'n str>,
    owner: Option<&'n str>,
    location: Option<&'n str>,
    tags: Vec<Option<&'n str>>,
    all_tags: Option<&'n BTreeMap<String, String>>,
}

impl Distinctions {
    /// Those of a policy, in Cedar's JSON form of it.
    pub(super) fn of(policy: &cedar_policy::Policy) -> Self {
        let mut all = Self::default();
        if policy.has_non_scope_constraint() {
            match policy.to_json().ok().as_ref().and_then(|json| json.get("conditions")) {
                Some(conditions) => all.add(conditions),
                None => all.add_everything(),
            }
        }
        all
    }

    /// Those of another policy, too.
    pub(super) fn extend(&mut self, other: &Self) {
        self.name |= other.name;
        self.owner |= other.owner;
        self.location |= other.location;
        self.all_tags |= other.all_tags;
        self.tags.extend(other.tags.iter().cloned());
    }

    /// What of a name can make a difference.
    pub(super) fn facts<'n>(&self, node: &'n Node) -> Facts<'n> {
        let attributes = node.attributes.as_ref();
        let tag = |key: &String| attributes.properties.get(key).map(String::as_str);
        Facts {
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

    fn add(&mut self, expression: &Value) {
        match expression {
            Value::Array(parts) => parts.iter().for_each(|part| self.add(part)),
            Value::Object(members) => {
                for (operator, operands) in members {
                    self.add_operation(operator, operands);
                }
            }
            _ => {}
        }
    }

    fn add_operation(&mut self, operator: &str, operands: &Value) {
        let of_resource = operands.pointer("/left/Var").and_then(Value::as_str) == Some("resource");
        match operator {
            "Var" => {
                if !matches!(operands.as_str(), Some("principal" | "action" | "context")) {
                    self.add_everything();
                }
            }
            // What a constant is made of are no expressions.
            "Value" => {}
            // The keys are whatever the policy calls them, and no operators.
            "Record" => {
                let values = operands.as_object().into_iter().flat_map(|record| record.values());
                values.for_each(|value| self.add(value));
            }
            "==" | "in" if of_resource => {
                self.name = true;
                operands.get("right").into_iter().for_each(|right| self.add(right));
            }
            // All names of a page are of one kind.
            "is" if of_resource => {
                if let Some(place) = operands.get("in") {
                    self.name = true;
                    self.add(place);
                }
            }
            "." | "has" if of_resource => {
                self.add_attribute(operands.get("attr").and_then(Value::as_str));
            }
            "hasTag" | "getTag" if of_resource => {
                match operands.pointer("/right/Value").and_then(Value::as_str) {
                    Some(key) => {
                        self.tags.insert(key.to_owned());
                    }
                    None => {
                        self.all_tags = true;
                        operands.get("right").into_iter().for_each(|right| self.add(right));
                    }
                }
            }
            _ => self.add(operands),
        }
    }

    fn add_attribute(&mut self, attribute: Option<&str>) {
        match attribute {
            Some("name") => self.name = true,
            Some("owner") => self.owner = true,
            Some("location") => self.location = true,
            // What they are in is the same for all names of a page.
            Some("namespace" | "parent" | "warehouse") => {}
            _ => self.add_everything(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(condition: &str) -> Distinctions {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        let policy = cedar_policy::Policy::parse(None, text);
        Distinctions::of(&policy.expect("the policy is well-formed"))
    }

    #[test]
    fn conditions_tell_apart_by_what_they_look_at() {
        let none = Distinctions::default();
        for condition in [
            "principal.name == \"ann\"",
            "context.authentication == \"jwt\"",
            "resource is Table",
            "resource.namespace.hasTag(\"pii\")",
            "resource has warehouse && resource.warehouse == Warehouse::\"w\"",
        ] {
            assert_eq!(of(condition), none, "{condition}");
        }
        let name = Distinctions { name: true, ..none.clone() };
        for condition in [
            "resource.name like \"tmp_*\"",
            "resource == Table::\"w/a/t\"",
            "resource in Namespace::\"w/a\"",
            "resource is Table in Namespace::\"w/a\"",
        ] {
            assert_eq!(of(condition), name, "{condition}");
        }
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
    fn what_is_handed_on_as_a_whole_may_be_told_apart_by_anything() {
        let mut everything = Distinctions::default();
        everything.add_everything();
        for condition in [
            "[resource].contains(Table::\"w/a/t\")",
            "Table::\"w/a/t\" == resource",
            "{Value: resource}.Value.name == \"t\"",
            "(if principal has name then resource else resource).name == \"t\"",
        ] {
            assert_eq!(of(condition), everything, "{condition}");
        }
    }
}
