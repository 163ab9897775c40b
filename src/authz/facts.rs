//! What a policy asks for, beyond its scope: so that nothing is fetched, and nothing distinguished, that no
//! policy asks for.

use serde_json::Value;

/// What the conditions of a policy, or of several, ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asks {
    /// The resource itself, even if only its name: the answer differs from one to the next.
    pub resource: bool,
    /// Attributes or properties of the resource, or of what it is in, besides its own name.
    pub attributes: bool,
    /// The time.
    pub time: bool,
    /// The source address.
    pub source_address: bool,
    /// What the client says that it is.
    pub client: bool,
}

impl Asks {
    /// Everything: what has to be assumed of a policy that cannot be looked into.
    pub(super) const ALL: Self =
        Self { resource: true, attributes: true, time: true, source_address: true, client: true };

    /// What either asks for.
    #[must_use]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            resource: self.resource | other.resource,
            attributes: self.attributes | other.attributes,
            time: self.time | other.time,
            source_address: self.source_address | other.source_address,
            client: self.client | other.client,
        }
    }

    /// What the conditions of a policy ask for, in Cedar's JSON form of it.
    pub(super) fn of(policy: &cedar_policy::Policy) -> Self {
        if !policy.has_non_scope_constraint() {
            return Self::default();
        }
        let Ok(json) = policy.to_json() else { return Self::ALL };
        let mut asks = Self::default();
        match json.get("conditions") {
            Some(conditions) => asks.add(conditions),
            None => return Self::ALL,
        }
        asks
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
        let left = operands.get("left").and_then(|left| left.get("Var")).and_then(Value::as_str);
        match (operator, left) {
            ("Var", _) => self.add_variable(operands),
            // Whether it is something, or in something, is told by its name and place alone.
            ("==" | "in" | "is", Some("resource")) => {
                self.resource = true;
                for side in ["right", "in"] {
                    operands.get(side).into_iter().for_each(|right| self.add(right));
                }
            }
            ("." | "has", Some(variable)) => {
                self.add_attribute(variable, operands.get("attr").and_then(Value::as_str));
            }
            // What a constant is made of are no expressions.
            ("Value", _) => {}
            // The keys are whatever the policy calls them, and no operators.
            ("Record", _) => {
                let values = operands.as_object().into_iter().flat_map(|record| record.values());
                values.for_each(|value| self.add(value));
            }
            _ => self.add(operands),
        }
    }

    /// A variable that stands for itself: all of it may matter.
    fn add_variable(&mut self, variable: &Value) {
        match variable.as_str() {
            Some("principal" | "action") => {}
            Some("resource") => (self.resource, self.attributes) = (true, true),
            Some("context") => {
                *self = self.or(Self { resource: false, attributes: false, ..Self::ALL });
            }
            _ => *self = Self::ALL,
        }
    }

    fn add_attribute(&mut self, variable: &str, attribute: Option<&str>) {
        match (variable, attribute) {
            ("principal" | "action", _) | ("context", Some("authentication")) => {}
            ("resource", Some("name")) => self.resource = true,
            ("resource", _) => (self.resource, self.attributes) = (true, true),
            ("context", Some("time")) => self.time = true,
            ("context", Some("source_address")) => self.source_address = true,
            ("context", Some("client")) => self.client = true,
            _ => *self = Self::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(conditions: &str) -> Asks {
        let text = format!("permit (principal, action, resource) {conditions};");
        Asks::of(&cedar_policy::Policy::parse(None, text).expect("the policy is well-formed"))
    }

    #[test]
    fn a_scope_asks_for_nothing() {
        assert_eq!(asks(""), Asks::default());
        assert_eq!(asks("when { principal.name == \"ann\" }"), Asks::default());
        assert_eq!(asks("when { \"resource\" == principal.name }"), Asks::default());
    }

    #[test]
    fn a_name_or_place_is_known_without_the_record() {
        let name_only = Asks { resource: true, ..Asks::default() };
        assert_eq!(asks("when { resource.name like \"tmp_*\" }"), name_only);
        assert_eq!(asks("unless { resource in Namespace::\"w/a\" }"), name_only);
        assert_eq!(asks("when { resource is Table in Namespace::\"w/a\" }"), name_only);
    }

    #[test]
    fn all_else_of_a_resource_is_an_attribute() {
        let attributes = Asks { resource: true, attributes: true, ..Asks::default() };
        for condition in [
            "resource has owner",
            "resource.hasTag(\"pii\")",
            "resource.getTag(\"pii\") == \"no\"",
            "resource.namespace.hasTag(\"pii\")",
            "resource.namespace.name == \"a\"",
            "[resource].contains(Table::\"w/a/t\")",
            "Table::\"w/a/t\" == resource",
            "{Value: resource.owner}.Value == \"ann\"",
            "if principal has name then resource has owner else false",
        ] {
            assert_eq!(asks(&format!("when {{ {condition} }}")), attributes, "{condition}");
        }
    }

    #[test]
    fn circumstances_are_told_apart() {
        let only = |asks: Asks| (asks.time, asks.source_address, asks.client, asks.resource);
        let time = asks("when { context.time > datetime(\"2026-01-01\") }");
        assert_eq!(only(time), (true, false, false, false));
        let address =
            asks("when { context has source_address && context.source_address.isLoopback() }");
        assert_eq!(only(address), (false, true, false, false));
        let client = asks("unless { context has client }");
        assert_eq!(only(client), (false, false, true, false));
        assert_eq!(
            only(asks("when { context.authentication == \"jwt\" }")),
            (false, false, false, false)
        );
        assert_eq!(only(asks("when { context == {} }")), (true, true, true, false));
    }
}
