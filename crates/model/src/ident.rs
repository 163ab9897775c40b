//! Names of namespaces, tables and views, and their validation.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Limits on the length and depth of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Maximum number of levels of a namespace.
    pub namespace_levels_max: usize,
    /// Maximum length, in bytes (UTF-8), of one namespace level, table name or view name.
    pub name_bytes_max: usize,
}

/// A namespace: its levels, outermost first. The empty namespace is the warehouse's root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamespaceIdent(pub Vec<String>);

impl NamespaceIdent {
    /// Refuses an invalid namespace name.
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

    /// Returns the parent namespace. `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }

    /// Whether this is the warehouse's root. The root always exists.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for NamespaceIdent {
    /// Writes the dotted form that Iceberg's own messages use. It is for display only, never for
    /// keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// The full name of a table or view. A table and a view never have the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TabularIdent {
    /// The namespace that contains it.
    pub namespace: NamespaceIdent,
    /// The name within the namespace.
    pub name: String,
}

impl TabularIdent {
    /// Refuses an invalid table or view name.
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

/// The kind of a tabular: table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TabularKind {
    /// An Iceberg table.
    Table,
    /// An Iceberg view.
    View,
}

impl TabularKind {
    /// Returns the first word of messages in Iceberg's style, such as "Table does not exist: ...".
    pub fn title(self) -> &'static str {
        match self {
            Self::Table => "Table",
            Self::View => "View",
        }
    }

    /// Returns the noun for this project's own messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
        }
    }

    /// Returns the other kind. A name belongs either to a table or to a view.
    pub fn other(self) -> Self {
        match self {
            Self::Table => Self::View,
            Self::View => Self::Table,
        }
    }
}

/// Validates one name. Control characters are refused because one of them (0x1F) separates
/// namespace levels in a path, and because they are unreadable in logs. `.` and `..` are refused
/// because proxies and clients resolve them before the server sees them.
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
    fn names_with_dots_slashes_spaces_and_any_script_are_valid() {
        for name in ["a.b", "a/b", "a b", "ü", "名前", "%2F", "+", "a..b"] {
            assert!(check(&[name]), "{name}");
        }
    }

    #[test]
    fn empty_long_dot_and_unprintable_names_are_refused() {
        for name in ["", "123456789", "\u{1f}", "\0", "a\nb", ".", ".."] {
            assert!(!check(&[name]), "{name:?}");
        }
        assert!(check(&["a", "b", "c"]));
        assert!(!check(&["a", "b", "c", "d"]));
    }

    #[test]
    fn display_joins_levels_with_dots() {
        let ident = TabularIdent {
            namespace: NamespaceIdent(vec!["a".into(), "b".into()]),
            name: "t".into(),
        };
        assert_eq!(ident.to_string(), "a.b.t");
        assert_eq!(ident.namespace.parent(), Some(NamespaceIdent(vec!["a".into()])));
    }
}
