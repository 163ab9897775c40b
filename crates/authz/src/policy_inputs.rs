//! Parts of a request that the conditions of policies use. The server loads only these parts, and
//! the keys of cached decisions contain only these.

use super::conditions::{ConditionUse, Conditions};

/// Parts of a request that the conditions of policies use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyInputs {
    /// Any part of the resource, including its name. If it is used, decisions may differ between
    /// resources.
    pub resource: bool,
    /// Attributes or properties of the resource or its parents, other than their names.
    pub attributes: bool,
    /// The time.
    pub time: bool,
    /// The source address.
    pub source_address: bool,
    /// The `User-Agent`.
    pub client: bool,
    /// The views through which the client reads.
    pub referenced_by: bool,
}

impl PolicyInputs {
    /// All parts. This is assumed for a policy whose conditions cannot be read.
    pub(super) const ALL: Self = Self {
        resource: true,
        attributes: true,
        time: true,
        source_address: true,
        client: true,
        referenced_by: true,
    };

    /// Combines the parts of two policies.
    #[must_use]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            resource: self.resource | other.resource,
            attributes: self.attributes | other.attributes,
            time: self.time | other.time,
            source_address: self.source_address | other.source_address,
            client: self.client | other.client,
            referenced_by: self.referenced_by | other.referenced_by,
        }
    }

    /// Returns the parts that the conditions of a policy use.
    pub(super) fn of(conditions: &Conditions) -> Self {
        let Some(uses) = conditions.uses() else { return Self::ALL };
        uses.into_iter().map(Self::of_use).fold(Self::default(), Self::or)
    }

    fn of_use(one: ConditionUse<'_>) -> Self {
        let none = Self::default();
        // The name and the parents are known without loading the record.
        let resource = Self { resource: true, ..none };
        let attributes = Self { attributes: true, ..resource };
        match one {
            ConditionUse::Path | ConditionUse::Kind => resource,
            ConditionUse::Tag(_) => attributes,
            ConditionUse::Variable("principal" | "action") => none,
            ConditionUse::Variable("resource") => attributes,
            ConditionUse::Variable("context") => {
                Self { resource: false, attributes: false, ..Self::ALL }
            }
            ConditionUse::Attribute("principal" | "action", _) => none,
            ConditionUse::Attribute("context", Some("authentication")) => none,
            ConditionUse::Attribute("resource", Some("name")) => resource,
            ConditionUse::Attribute("resource", _) => attributes,
            ConditionUse::Attribute("context", Some("time")) => Self { time: true, ..none },
            ConditionUse::Attribute("context", Some("source_address")) => {
                Self { source_address: true, ..none }
            }
            ConditionUse::Attribute("context", Some("client")) => Self { client: true, ..none },
            ConditionUse::Attribute("context", Some("referenced_by")) => {
                Self { referenced_by: true, ..none }
            }
            ConditionUse::Variable(_) | ConditionUse::Attribute(..) => Self::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(conditions: &str) -> PolicyInputs {
        let text = format!("permit (principal, action, resource) {conditions};");
        let policy = cedar_policy::Policy::parse(None, text);
        PolicyInputs::of(&Conditions::of(&policy.expect("the policy is well-formed")))
    }

    #[test]
    fn policy_without_conditions_uses_nothing() {
        assert_eq!(asks(""), PolicyInputs::default());
        assert_eq!(asks("when { principal.name == \"ann\" }"), PolicyInputs::default());
        assert_eq!(asks("when { \"resource\" == principal.name }"), PolicyInputs::default());
    }

    #[test]
    fn name_and_parents_need_no_attributes() {
        let name_only = PolicyInputs { resource: true, ..PolicyInputs::default() };
        assert_eq!(asks("when { resource.name like \"tmp_*\" }"), name_only);
        assert_eq!(asks("unless { resource in Namespace::\"w/a\" }"), name_only);
        assert_eq!(asks("when { resource is Table in Namespace::\"w/a\" }"), name_only);
    }

    #[test]
    fn all_else_of_a_resource_is_an_attribute() {
        let attributes =
            PolicyInputs { resource: true, attributes: true, ..PolicyInputs::default() };
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
    fn cached_decisions_depend_on_the_context() {
        let only =
            |asks: PolicyInputs| (asks.time, asks.source_address, asks.client, asks.resource);
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
        let views = asks("when { context has referenced_by }");
        assert_eq!(views, PolicyInputs { referenced_by: true, ..PolicyInputs::default() });
    }
}
