//! What something is done to: the catalog, a warehouse, a namespace, a table or a view, with all that it is
//! in, and what is known of each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::members::brief;

/// What kind of thing a resource is. The names are those of the policies' entity types.
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
}

/// All kinds, from the outermost in.
pub const KINDS: [Kind; 5] =
    [Kind::Catalog, Kind::Warehouse, Kind::Namespace, Kind::Table, Kind::View];

impl Kind {
    /// The name of the entity type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "Catalog",
            Self::Warehouse => "Warehouse",
            Self::Namespace => "Namespace",
            Self::Table => "Table",
            Self::View => "View",
        }
    }

    /// The name that people and programs write.
    pub fn word(self) -> &'static str {
        match self {
            Self::Catalog => CATALOG_ID,
            Self::Warehouse => "warehouse",
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
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

/// Levels that a resource may have to be asked about, from the warehouse to the table. Cedar goes from each
/// to what it is in by recursion, and the id of each repeats those of all that it is in.
pub const LEVELS_MAX: usize = 256;

/// Bytes that a property takes beside its texts.
const PROPERTY_BYTES: usize = 64;

/// The id of the one catalog.
pub const CATALOG_ID: &str = "catalog";

/// What policies can ask of a thing besides its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Its properties; nobody's business for a warehouse.
    pub properties: BTreeMap<String, String>,
    /// Where its files are, for tables and views.
    pub location: Option<String>,
    /// The id of whoever made it.
    pub owner: Option<String>,
}

impl Attributes {
    /// The bytes that they take, about.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let properties = self.properties.iter();
        let properties = properties.map(|(key, value)| key.len() + value.len() + PROPERTY_BYTES);
        size_of::<Self>() + text(&self.location) + text(&self.owner) + properties.sum::<usize>()
    }
}

/// One level of a resource: its own name there, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name within what it is in.
    pub name: SmolStr,
    /// What is known of it; none if nothing is.
    pub attributes: Option<Arc<Attributes>>,
}

impl Node {
    /// A level of which nothing but the name is known.
    pub fn named(name: impl Into<SmolStr>) -> Self {
        Self { name: name.into(), attributes: None }
    }

    /// A level of which this is known.
    pub fn known(name: impl Into<SmolStr>, attributes: Arc<Attributes>) -> Self {
        Self { name: name.into(), attributes: Some(attributes) }
    }

    /// What is known of it.
    pub fn attributes(&self) -> &Attributes {
        const NOTHING: &Attributes =
            &Attributes { properties: BTreeMap::new(), location: None, owner: None };
        self.attributes.as_deref().unwrap_or(NOTHING)
    }

    /// The bytes that it takes, about, with what is known of it.
    pub fn bytes(&self) -> usize {
        let known = self.attributes.as_ref().map_or(0, |attributes| attributes.bytes());
        size_of::<Self>() + self.name.len() + known
    }
}

/// What something is done to, with all that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    kind: Kind,
    /// The warehouse, the levels of the namespace, the table or view: as far as the kind goes.
    nodes: Vec<Node>,
}

/// Why a path is not that of a resource, with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPath {
    kind: Kind,
    path: String,
    reason: &'static str,
    /// What is written before a path where the error is reported, such as `table:`.
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
        };
        let (kind, path) = (kind.word(), brief(path));
        write!(f, "not a {kind}: '{prefix}{path}'{reason}. ")?;
        write!(f, "Write {prefix}{form}, such as {prefix}{example}")
    }
}

impl NoSuchPath {
    /// The same error for a path behind the word for its kind.
    #[must_use]
    pub fn behind(self, word: &str) -> Self {
        Self { prefix: format!("{word}:"), ..self }
    }
}

impl Resource {
    /// The catalog itself.
    pub fn catalog() -> Self {
        Self { kind: Kind::Catalog, nodes: Vec::new() }
    }

    /// A warehouse.
    pub fn warehouse(name: impl Into<SmolStr>) -> Self {
        Self { kind: Kind::Warehouse, nodes: vec![Node::named(name)] }
    }

    /// A namespace below this warehouse or namespace, one level down.
    #[must_use]
    pub fn level(self, node: Node) -> Self {
        self.below(Kind::Namespace, node)
    }

    /// A namespace of this warehouse; the warehouse itself for the root.
    #[must_use]
    pub fn namespace(mut self, ident: &NamespaceIdent) -> Self {
        // With room for a table or view.
        self.nodes.reserve_exact(ident.0.len() + 1);
        ident.0.iter().fold(self, |inner, level| inner.level(Node::named(level)))
    }

    /// A table or view in this namespace.
    #[must_use]
    pub fn tabular(self, kind: TabularKind, node: Node) -> Self {
        self.below(kind.into(), node)
    }

    /// The same resource, with what is known of it.
    #[must_use]
    pub fn with(mut self, attributes: Arc<Attributes>) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.attributes = Some(attributes);
        }
        self
    }

    /// The same resource, with what is known of each level, from the warehouse in.
    #[must_use]
    pub fn with_all(mut self, attributes: Vec<Arc<Attributes>>) -> Self {
        for (node, attributes) in self.nodes.iter_mut().zip(attributes) {
            node.attributes = Some(attributes);
        }
        self
    }

    /// The same resource, with nothing known of any level.
    #[must_use]
    pub(super) fn by_names(&self) -> Self {
        let names = self.nodes.iter().map(|node| Node::named(node.name.clone()));
        Self { kind: self.kind, nodes: names.collect() }
    }

    /// The bytes that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.iter().map(Node::bytes).sum()
    }

    /// What is below this one, one step down.
    #[must_use]
    pub(super) fn below(mut self, kind: Kind, node: Node) -> Self {
        self.kind = kind;
        self.nodes.push(node);
        self
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The levels, from the warehouse in; none for the catalog.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The warehouse that it is in, or is.
    pub fn warehouse_name(&self) -> Option<&str> {
        self.nodes.first().map(|node| node.name.as_str())
    }

    /// The kind of each level.
    pub(super) fn kind_of(&self, level: usize) -> Kind {
        match level {
            0 => Kind::Warehouse,
            _ if level + 1 == self.nodes.len() => self.kind,
            _ => Kind::Namespace,
        }
    }

    /// Its id in policies.
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

    /// What an id in policies stands for.
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
            (Kind::Warehouse, 1) | (Kind::Namespace, 2..) | (Kind::Table | Kind::View, 3..) => {
                Ok(Self { kind, nodes })
            }
            _ => Err(wrong("")),
        }
    }

    /// What it is in, from the outside in: the warehouse first, without itself and the catalog.
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
    /// As policies write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"{}\"", self.kind.name(), self.id().escape_debug())
    }
}

/// Adds a name to an id, so that no two paths of names get one id.
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

/// The name that was added to an id as this part of it. None if no name is.
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
    fn no_two_paths_of_names_have_one_id() {
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
    fn an_id_goes_as_deep_as_its_kind() {
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
