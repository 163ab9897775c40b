//! Parses and formats grantees and resources in one string: `role:analysts`,
//! `table:prod/sales/orders`, `catalog`.

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
pub fn grantee_kind_word(kind: GranteeKind) -> &'static str {
    match kind {
        GranteeKind::User => "user",
        GranteeKind::ServiceAccount => "service-account",
        GranteeKind::Role => "role",
        GranteeKind::Group => "group",
    }
}

/// Formats a grantee.
pub fn grantee_word(grantee: &Grantee) -> String {
    format!("{}:{}", grantee_kind_word(grantee.kind), grantee.id)
}

/// Formats a resource.
pub fn resource_word(resource: &Resource) -> String {
    match resource.kind() {
        Kind::Catalog => CATALOG_ID.to_owned(),
        kind => format!("{}:{}", kind.word(), resource.id()),
    }
}

/// Parses a grantee.
pub fn grantee(word: &str) -> Result<Grantee, NotAName> {
    let wrong = || {
        let shown = brief(word);
        let name = if word.contains(':') || word.is_empty() { "analysts" } else { shown.as_str() };
        NotAName(format!(
            "not a grantee: '{shown}'. Write role:{name}, group:{name}, user:ISSUER/SUBJECT or \
             service-account:KEY (the id of an API key)"
        ))
    };
    let (kind, id) = word.split_once(':').ok_or_else(wrong)?;
    let kind = GRANTEES.into_iter().find(|known| grantee_kind_word(*known) == kind);
    let kind = kind.ok_or_else(wrong)?;
    if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) {
        let length = format!("of 1 to {ID_CHARS_MAX} printable characters");
        return Err(NotAName(format!("'{}': expected an id {length}", brief(word))));
    }
    Ok(Grantee { kind, id: id.to_owned() })
}

/// Parses a resource. It has no attributes.
pub fn resource(word: &str) -> Result<Resource, NotAName> {
    if word == CATALOG_ID {
        return Ok(Resource::catalog());
    }
    let wrong = || {
        NotAName(format!(
            "not a resource: '{}'. Write table:WAREHOUSE/NAMESPACE/NAME, such as \
             table:default/sales/orders, or view:WAREHOUSE/NAMESPACE/NAME, \
             namespace:WAREHOUSE/NAMESPACE, warehouse:NAME or catalog",
            brief(word)
        ))
    };
    let (kind, path) = word.split_once(':').ok_or_else(wrong)?;
    let kind = KINDS.into_iter().find(|known| known.word() == kind).ok_or_else(wrong)?;
    if kind == Kind::Catalog {
        return Err(wrong());
    }
    let wrong = |error: NoSuchPath| NotAName(error.behind(kind.word()).to_string());
    Resource::parse(kind, path).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_as_what_it_names() {
        for word in ["catalog", "warehouse:w", "namespace:w/a%2Fb/c", "table:w/a/t", "view:w/a/b:c"]
        {
            assert_eq!(resource(word).map(|it| resource_word(&it)), Ok(word.to_owned()));
        }
        for word in ["user:corp/ann:1", "service-account:x", "role:r", "group:a b"] {
            assert_eq!(grantee(word).map(|it| grantee_word(&it)), Ok(word.to_owned()));
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for word in ["", "table", "table:", "table:w/t", "Table:w/a/t", "catalog:", "catalog:x"] {
            assert!(resource(word).is_err(), "{word}");
        }
        for word in ["", "role", "role:", "Role:x", "admin:x", "role:a\nb"] {
            assert!(grantee(word).is_err(), "{word}");
        }
    }
}
