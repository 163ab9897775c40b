//! Names: of namespaces, of tables and views, and what a name may be.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// How long and how deep names may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Levels of a namespace.
    pub namespace_levels_max: usize,
    /// Bytes (UTF-8) of one namespace level, table name or view name.
    pub name_bytes_max: usize,
}

/// A namespace: its levels from the outermost in. The empty one is the warehouse's root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamespaceIdent(pub Vec<String>);

impl NamespaceIdent {
    /// Refuses what no namespace may be called.
    pub fn validate(&self, limits: NameLimits) -> Result<(), Refusal> {
        if self.0.len() > limits.namespace_levels_max {
            return Err(Refusal::invalid(format!(
                "Invalid namespace: {} levels, at most {} are allowed",
                self.0.len(),
                limits.namespace_levels_max
            )));
        }
        self.0.iter().try_for_each(|level| validate_name("namespace level", level, limits))
    }

    /// The namespace that this one is a child of; none for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }

    /// Whether this is the warehouse's root, which always exists.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for NamespaceIdent {
    /// The dotted form that Iceberg's own messages use: for people, never for keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// The name of a table or of a view (the two share one name space).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TabularIdent {
    /// The namespace that holds it.
    pub namespace: NamespaceIdent,
    /// Its own name.
    pub name: String,
}

impl TabularIdent {
    /// Refuses what no table or view may be called.
    pub fn validate(&self, limits: NameLimits) -> Result<(), Refusal> {
        self.namespace.validate(limits)?;
        validate_name("name", &self.name, limits)
    }
}

impl fmt::Display for TabularIdent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_root() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}.{}", self.namespace, self.name)
        }
    }
}

/// Whether something is a table or a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TabularKind {
    /// An Iceberg table.
    Table,
    /// An Iceberg view.
    View,
}

impl TabularKind {
    /// The word that begins Iceberg's own messages ("Table does not exist: ...").
    pub fn title(self) -> &'static str {
        match self {
            Self::Table => "Table",
            Self::View => "View",
        }
    }

    /// The noun for messages of our own.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
        }
    }

    /// The other one: what must not have the name either.
    pub fn other(self) -> Self {
        match self {
            Self::Table => Self::View,
            Self::View => Self::Table,
        }
    }
}

/// Control characters are refused because one of them (0x1F) separates the levels of a namespace in
/// a path, and because none of them can be read in a log; `.` and `..` because proxies and clients
/// resolve them before a server sees them.
fn validate_name(what: &str, name: &str, limits: NameLimits) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::invalid(format!("Invalid {what}: empty")));
    }
    if name.len() > limits.name_bytes_max {
        return Err(Refusal::invalid(format!(
            "Invalid {what}: {} bytes long, at most {} are allowed",
            name.len(),
            limits.name_bytes_max
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!("Invalid {what}: contains a control character")));
    }
    if name == "." || name == ".." {
        return Err(Refusal::invalid(format!("Invalid {what}: '{name}'")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: NameLimits = NameLimits { namespace_levels_max: 3, name_bytes_max: 8 };

    fn check(levels: &[&str]) -> bool {
        NamespaceIdent(levels.iter().map(ToString::to_string).collect()).validate(LIMITS).is_ok()
    }

    #[test]
    fn names_may_hold_dots_slashes_spaces_and_any_script() {
        for name in ["a.b", "a/b", "a b", "ü", "名前", "%2F", "+", "a..b"] {
            assert!(check(&[name]), "{name}");
        }
    }

    #[test]
    fn names_may_not_be_empty_long_dotted_or_unprintable() {
        for name in ["", "123456789", "\u{1f}", "\0", "a\nb", ".", ".."] {
            assert!(!check(&[name]), "{name:?}");
        }
        assert!(check(&["a", "b", "c"]));
        assert!(!check(&["a", "b", "c", "d"]));
    }

    #[test]
    fn the_dotted_form_is_for_people() {
        let ident = TabularIdent {
            namespace: NamespaceIdent(vec!["a".into(), "b".into()]),
            name: "t".into(),
        };
        assert_eq!(ident.to_string(), "a.b.t");
        assert_eq!(ident.namespace.parent(), Some(NamespaceIdent(vec!["a".into()])));
    }
}
