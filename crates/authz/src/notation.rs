//! Parses and formats the notation of a grantee or a resource, such as `role:analysts` or
//! `table:prod/sales/orders`.

use super::grants::{Grantee, GranteeKind};
use super::resource::{CATALOG_ID, KINDS, Kind, NoSuchPath, Resource};
use slateberg_model::members::brief;

/// Error for a string that is not a grantee or resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAName(String);

/// All kinds of grantees.
const GRANTEES: [GranteeKind; 4] =
    [GranteeKind::User, GranteeKind::ServiceAccount, GranteeKind::Role, GranteeKind::Group];
/// Maximum number of characters in the id of a grantee.
const ID_CHARS_MAX: usize = 512;

/// Returns the prefix for a kind of grantee.
pub(crate) fn grantee_kind_name(kind: GranteeKind) -> &'static str {
    match kind {
        GranteeKind::User => "user",
        GranteeKind::ServiceAccount => "service-account",
        GranteeKind::Role => "role",
        GranteeKind::Group => "group",
    }
}

/// Formats a grantee.
pub fn grantee_text(grantee: &Grantee) -> String {
    format!("{}:{}", grantee_kind_name(grantee.kind), grantee.id)
}

/// Formats a resource.
pub fn resource_text(resource: &Resource) -> String {
    match resource.kind() {
        Kind::Catalog => CATALOG_ID.to_owned(),
        kind => format!("{}:{}", kind.as_str(), resource.id()),
    }
}

/// Parses a grantee.
pub fn grantee(notation: &str) -> Result<Grantee, NotAName> {
    let wrong = || {
        let shortened = brief(notation);
        let name = if notation.contains(':') || notation.is_empty() {
            "analysts"
        } else {
            shortened.as_str()
        };
        NotAName(format!(
            "not a grantee: '{shortened}'. Write role:{name}, group:{name}, user:ISSUER/SUBJECT or \
             service-account:KEY (the id of an API key)"
        ))
    };
    let (kind, id) = notation.split_once(':').ok_or_else(wrong)?;
    let kind = GRANTEES.into_iter().find(|known| grantee_kind_name(*known) == kind);
    let kind = kind.ok_or_else(wrong)?;
    if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) {
        let length = format!("of 1 to {ID_CHARS_MAX} printable characters");
        return Err(NotAName(format!("'{}': expected an id {length}", brief(notation))));
    }
    Ok(Grantee { kind, id: id.to_owned() })
}

/// Parses a resource. The returned resource has no attributes (properties, location, owner).
pub fn resource(notation: &str) -> Result<Resource, NotAName> {
    if notation == CATALOG_ID {
        return Ok(Resource::catalog());
    }
    let wrong = || {
        NotAName(format!(
            "not a resource: '{}'. Write table:WAREHOUSE/NAMESPACE/NAME, such as \
             table:default/sales/orders, or view:WAREHOUSE/NAMESPACE/NAME, \
             function:WAREHOUSE/NAMESPACE/NAME, namespace:WAREHOUSE/NAMESPACE, warehouse:NAME or \
             catalog",
            brief(notation)
        ))
    };
    let (kind, path) = notation.split_once(':').ok_or_else(wrong)?;
    let kind = KINDS.into_iter().find(|known| known.as_str() == kind).ok_or_else(wrong)?;
    if kind == Kind::Catalog {
        return Err(wrong());
    }
    let wrong = |error: NoSuchPath| NotAName(error.behind(kind.as_str()).to_string());
    Resource::parse(kind, path).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_survives_a_round_trip() {
        for notation in [
            "catalog",
            "warehouse:w",
            "namespace:w/a%2Fb/c",
            "table:w/a/t",
            "view:w/a/b:c",
            "function:w/a/f",
        ] {
            assert_eq!(resource(notation).map(|it| resource_text(&it)), Ok(notation.to_owned()));
        }
        for notation in ["user:corp/ann:1", "service-account:x", "role:r", "group:a b"] {
            assert_eq!(grantee(notation).map(|it| grantee_text(&it)), Ok(notation.to_owned()));
        }
    }

    #[test]
    fn invalid_notation_is_rejected() {
        for notation in ["", "table", "table:", "table:w/t", "Table:w/a/t", "catalog:", "catalog:x"]
        {
            assert!(resource(notation).is_err(), "{notation}");
        }
        for notation in ["", "role", "role:", "Role:x", "admin:x", "role:a\nb"] {
            assert!(grantee(notation).is_err(), "{notation}");
        }
    }
}
