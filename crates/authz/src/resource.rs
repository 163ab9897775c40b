//! Resources: the catalog, a warehouse, a namespace, a table, a view or a function, with all parents
//! and their attributes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::members::brief;

/// Type of a resource. The names are those of the policies' entity types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The catalog itself.
    Catalog,
    /// A warehouse.
    Warehouse,
    /// A namespace.
    Namespace,
    /// A table.
    Table,
    /// A view.
    View,
    /// A function.
    Function,
}

/// All types, from the outermost to the innermost.
pub const KINDS: [Kind; 6] =
    [Kind::Catalog, Kind::Warehouse, Kind::Namespace, Kind::Table, Kind::View, Kind::Function];

impl Kind {
    /// Name of the entity type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "Catalog",
            Self::Warehouse => "Warehouse",
            Self::Namespace => "Namespace",
            Self::Table => "Table",
            Self::View => "View",
            Self::Function => "Function",
        }
    }

    /// Name in commands and requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => CATALOG_ID,
            Self::Warehouse => "warehouse",
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
            Self::Function => "function",
        }
    }
}

impl From<TabularKind> for Kind {
    fn from(kind: TabularKind) -> Self {
        match kind {
            TabularKind::Table => Self::Table,
            TabularKind::View => Self::View,
        }
    }
}

/// Maximum number of levels, from the warehouse to the table. The number is limited because Cedar
/// follows the parents recursively, and because the id of each level contains the ids of all its
/// parents.
pub const LEVELS_MAX: usize = 256;

/// Size of a property without its key and value.
const PROPERTY_BYTES: usize = 64;

/// Id of the catalog.
pub(crate) const CATALOG_ID: &str = "catalog";

/// Attributes of a resource that policies can use in addition to its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Properties. Policies cannot use the properties of a warehouse.
    pub properties: BTreeMap<String, String>,
    /// Location of the files of a table or view.
    pub location: Option<String>,
    /// Id of the creator.
    pub owner: Option<String>,
}

impl Attributes {
    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let properties = self.properties.iter();
        let properties = properties.map(|(key, value)| key.len() + value.len() + PROPERTY_BYTES);
        size_of::<Self>() + text(&self.location) + text(&self.owner) + properties.sum::<usize>()
    }
}

/// One level of a resource: its name and attributes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Name within the parent.
    pub name: SmolStr,
    /// Attributes. `None` if they are not loaded.
    pub attributes: Option<Arc<Attributes>>,
}

impl Node {
    /// Creates a level without attributes.
    pub fn named(name: impl Into<SmolStr>) -> Self {
        Self { name: name.into(), attributes: None }
    }

    /// Creates a level with attributes.
    pub fn known(name: impl Into<SmolStr>, attributes: Arc<Attributes>) -> Self {
        Self { name: name.into(), attributes: Some(attributes) }
    }

    /// The attributes. Empty if they are not loaded.
    pub fn attributes(&self) -> &Attributes {
        const NOTHING: &Attributes =
            &Attributes { properties: BTreeMap::new(), location: None, owner: None };
        self.attributes.as_deref().unwrap_or(NOTHING)
    }

    /// Approximate size in bytes, including the attributes.
    pub fn bytes(&self) -> usize {
        let known = self.attributes.as_ref().map_or(0, |attributes| attributes.bytes());
        size_of::<Self>() + self.name.len() + known
    }
}

/// A resource with its parents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    kind: Kind,
    /// The warehouse, the levels of the namespace, and the table, view or function. The list ends
    /// with the resource itself, and is empty for the catalog.
    nodes: Vec<Node>,
}

/// Error for a path that is not a resource, with the expected form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPath {
    kind: Kind,
    path: String,
    reason: &'static str,
    /// Prefix of the path in the message, such as `table:`.
    prefix: String,
}

impl std::error::Error for NoSuchPath {}

impl fmt::Display for NoSuchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, path, reason, prefix } = self;
        let (form, example) = match kind {
            Kind::Catalog => (CATALOG_ID, CATALOG_ID),
            Kind::Warehouse => ("NAME", "default"),
            Kind::Namespace => ("WAREHOUSE/NAMESPACE", "default/sales"),
            Kind::Table => ("WAREHOUSE/NAMESPACE/NAME", "default/sales/orders"),
            Kind::View => ("WAREHOUSE/NAMESPACE/NAME", "default/sales/open_orders"),
            Kind::Function => ("WAREHOUSE/NAMESPACE/NAME", "default/sales/add_tax"),
        };
        let (kind, path) = (kind.as_str(), brief(path));
        write!(f, "not a {kind}: '{prefix}{path}'{reason}. ")?;
        write!(f, "Write {prefix}{form}, such as {prefix}{example}")
    }
}

impl NoSuchPath {
    /// Adds the name of a kind as the prefix of the path in the message.
    #[must_use]
    pub fn behind(self, as_str: &str) -> Self {
        Self { prefix: format!("{as_str}:"), ..self }
    }
}

impl Resource {
    /// The catalog.
    pub fn catalog() -> Self {
        Self { kind: Kind::Catalog, nodes: Vec::new() }
    }

    /// Creates the resource of a warehouse.
    pub fn warehouse(name: impl Into<SmolStr>) -> Self {
        Self { kind: Kind::Warehouse, nodes: vec![Node::named(name)] }
    }

    /// Appends a level of a namespace.
    #[must_use]
    pub fn level(self, node: Node) -> Self {
        self.below(Kind::Namespace, node)
    }

    /// Creates the resource of a namespace in this warehouse. For the root namespace, returns the
    /// warehouse itself.
    #[must_use]
    pub fn namespace(mut self, ident: &NamespaceIdent) -> Self {
        // Includes capacity for a table or view.
        self.nodes.reserve_exact(ident.0.len() + 1);
        ident.0.iter().fold(self, |inner, level| inner.level(Node::named(level)))
    }

    /// Creates the resource of a table or view in this namespace.
    #[must_use]
    pub fn tabular(self, kind: TabularKind, node: Node) -> Self {
        self.below(kind.into(), node)
    }

    /// Creates the resource of a function in this namespace.
    #[must_use]
    pub fn function(self, node: Node) -> Self {
        self.below(Kind::Function, node)
    }

    /// Sets the attributes of the resource itself.
    #[must_use]
    pub fn with(mut self, attributes: Arc<Attributes>) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.attributes = Some(attributes);
        }
        self
    }

    /// Sets the attributes of each level, beginning with the warehouse.
    #[must_use]
    pub fn with_all(mut self, attributes: Vec<Arc<Attributes>>) -> Self {
        for (node, attributes) in self.nodes.iter_mut().zip(attributes) {
            node.attributes = Some(attributes);
        }
        self
    }

    /// Returns a copy without attributes.
    #[must_use]
    pub(super) fn by_names(&self) -> Self {
        let names = self.nodes.iter().map(|node| Node::named(node.name.clone()));
        Self { kind: self.kind, nodes: names.collect() }
    }

    /// Approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.iter().map(Node::bytes).sum()
    }

    /// Appends a level.
    #[must_use]
    pub(super) fn below(mut self, kind: Kind, node: Node) -> Self {
        self.kind = kind;
        self.nodes.push(node);
        self
    }

    /// Type of the resource.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The levels, beginning with the warehouse. Empty for the catalog.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Name of the warehouse that is or contains the resource.
    pub fn warehouse_name(&self) -> Option<&str> {
        self.nodes.first().map(|node| node.name.as_str())
    }

    /// Returns the type of a level.
    pub(super) fn kind_of(&self, level: usize) -> Kind {
        match level {
            0 => Kind::Warehouse,
            _ if level + 1 == self.nodes.len() => self.kind,
            _ => Kind::Namespace,
        }
    }

    /// Id of the resource in policies.
    pub fn id(&self) -> String {
        if self.nodes.is_empty() {
            return CATALOG_ID.to_owned();
        }
        let mut id = String::new();
        for node in &self.nodes {
            push_name(&mut id, &node.name);
        }
        id
    }

    /// Parses the id of a resource in policies.
    pub fn parse(kind: Kind, path: &str) -> Result<Self, NoSuchPath> {
        let wrong =
            |reason| NoSuchPath { kind, path: path.to_owned(), reason, prefix: String::new() };
        if kind == Kind::Catalog {
            let catalog = (path == CATALOG_ID).then(Self::catalog);
            return catalog.ok_or_else(|| wrong(""));
        }
        if path.split('/').nth(LEVELS_MAX).is_some() {
            return Err(wrong(" (too many levels)"));
        }
        let mut nodes = Vec::new();
        for part in path.split('/') {
            let name = unescape(part)
                .ok_or_else(|| wrong(" (% in a name is written %25, and / is written %2F)"))?;
            if name.is_empty() {
                return Err(wrong(" (a name is empty)"));
            }
            nodes.push(Node::named(name));
        }
        match (kind, nodes.len()) {
            (Kind::Warehouse, 1)
            | (Kind::Namespace, 2..)
            | (Kind::Table | Kind::View | Kind::Function, 3..) => Ok(Self { kind, nodes }),
            _ => Err(wrong("")),
        }
    }

    /// Returns the parents, beginning with the warehouse. The resource itself and the catalog are
    /// not included.
    pub fn enclosing(&self) -> Vec<Self> {
        (1..self.nodes.len())
            .map(|length| {
                let kind = if length == 1 { Kind::Warehouse } else { Kind::Namespace };
                Self { kind, nodes: self.nodes[..length].to_vec() }
            })
            .collect()
    }
}

impl fmt::Display for Resource {
    /// Formats the resource as in policies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"{}\"", self.kind.name(), self.id().escape_debug())
    }
}

/// Appends a name to an id. The escapes keep ids unique.
pub(super) fn push_name(id: &mut String, name: &str) {
    if !id.is_empty() {
        id.push('/');
    }
    for c in name.chars() {
        match c {
            '/' => id.push_str("%2F"),
            '%' => id.push_str("%25"),
            _ => id.push(c),
        }
    }
}

/// Reverses the escapes of a part of an id. `None` if the part has an invalid escape.
pub(super) fn unescape(part: &str) -> Option<String> {
    let mut pieces = part.split('%');
    let mut name = pieces.next()?.to_owned();
    for piece in pieces {
        let (c, rest) = match (piece.strip_prefix("2F"), piece.strip_prefix("25")) {
            (Some(rest), _) => ('/', rest),
            (_, Some(rest)) => ('%', rest),
            _ => return None,
        };
        name.push(c);
        name.push_str(rest);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(levels: &[&str]) -> Resource {
        let levels = levels.iter().map(ToString::to_string).collect();
        Resource::warehouse("w").namespace(&NamespaceIdent(levels))
    }

    #[test]
    fn ids_of_different_paths_differ() {
        let paths: [&[&str]; 8] = [
            &["a", "b"],
            &["a/b"],
            &["a%2Fb"],
            &["a%2fb"],
            &["a%252Fb"],
            &["a.b"],
            &["a", "b", "c"],
            &["a/b", "c"],
        ];
        let mut ids: Vec<_> = paths.iter().map(|levels| namespace(levels).id()).collect();
        for (levels, id) in paths.iter().zip(&ids) {
            assert_eq!(Resource::parse(Kind::Namespace, id), Ok(namespace(levels)), "{id}");
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), paths.len());
    }

    #[test]
    fn ids_have_the_depth_of_their_kind() {
        for (kind, path) in [
            (Kind::Catalog, "other"),
            (Kind::Warehouse, "w/a"),
            (Kind::Warehouse, ""),
            (Kind::Namespace, "w"),
            (Kind::Namespace, "w//a"),
            (Kind::Table, "w/a"),
            (Kind::View, "w/a/%2"),
        ] {
            assert!(Resource::parse(kind, path).is_err(), "{path}");
        }
    }
}
