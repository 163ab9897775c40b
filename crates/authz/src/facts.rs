//! Parts of a request that policies use beyond their scopes, so that the server loads and
//! distinguishes only these.

use super::conditions::{Conditions, Use};

/// Parts of a request that the conditions of policies use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asks {
    /// The resource, even if only its name: decisions differ between resources.
    pub resource: bool,
    /// Attributes or properties of the resource or its parents, other than its name.
    pub attributes: bool,
    /// The time.
    pub time: bool,
    /// The source address.
    pub source_address: bool,
    /// The `User-Agent`.
    pub client: bool,
}

impl Asks {
    /// All parts: the assumption for a policy whose conditions cannot be read.
    pub(super) const ALL: Self =
        Self { resource: true, attributes: true, time: true, source_address: true, client: true };

    /// Combines the parts of two policies.
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

    /// Returns the parts that the conditions of a policy use.
    pub(super) fn of(conditions: &Conditions) -> Self {
        let Some(uses) = conditions.uses() else { return Self::ALL };
        uses.into_iter().map(Self::of_use).fold(Self::default(), Self::or)
    }

    fn of_use(one: Use<'_>) -> Self {
        let none = Self::default();
        // Name and parents are known without the record.
        let resource = Self { resource: true, ..none };
        let attributes = Self { attributes: true, ..resource };
        match one {
            Use::Place | Use::Kind => resource,
            Use::Tag(_) => attributes,
            Use::Variable("principal" | "action") => none,
            Use::Variable("resource") => attributes,
            Use::Variable("context") => Self { resource: false, attributes: false, ..Self::ALL },
            Use::Attribute("principal" | "action", _) => none,
            Use::Attribute("context", Some("authentication")) => none,
            Use::Attribute("resource", Some("name")) => resource,
            Use::Attribute("resource", _) => attributes,
            Use::Attribute("context", Some("time")) => Self { time: true, ..none },
            Use::Attribute("context", Some("source_address")) => {
                Self { source_address: true, ..none }
            }
            Use::Attribute("context", Some("client")) => Self { client: true, ..none },
            Use::Variable(_) | Use::Attribute(..) => Self::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(conditions: &str) -> Asks {
        let text = format!("permit (principal, action, resource) {conditions};");
        let policy = cedar_policy::Policy::parse(None, text);
        Asks::of(&Conditions::of(&policy.expect("the policy is well-formed")))
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
