//! Converts principals and resources to Cedar's entities.

use std::collections::HashSet;

use cedar_policy::{Entity, EntityTypeName, EntityUid, RestrictedExpression};
use smol_str::SmolStr;

use super::resource::{CATALOG_ID, Kind, LEVELS_MAX, Node, Resource, push_name, unescape};
use super::schema::{Schema, Types, uid};
use slateberg_model::principal::{Identity, IdentityKind};

/// Attributes in Cedar's form.
type Pairs = Vec<(String, RestrictedExpression)>;

/// The catalog and the levels down to a resource. The ids of the objects in the innermost level
/// begin with the id of this level.
pub(super) struct Path {
    pub(super) entities: Vec<Entity>,
    /// The innermost level. The catalog for an empty path.
    pub(super) innermost: EntityUid,
    /// Id of the innermost level, the prefix of its children's ids.
    id: String,
    warehouse: Option<EntityUid>,
}

impl Path {
    /// Returns the name of the entity `uid` if it is directly below this path.
    pub(super) fn name_below(&self, uid: &EntityUid) -> Option<SmolStr> {
        let id = uid.id().unescaped();
        let part = match self.id.as_str() {
            "" => id,
            above => id.strip_prefix(above)?.strip_prefix('/')?,
        };
        let name = (!part.contains('/')).then(|| unescape(part))?;
        name.map(SmolStr::from)
    }
}

impl Types {
    pub(super) fn of(&self, kind: Kind) -> &EntityTypeName {
        match kind {
            Kind::Catalog => &self.catalog,
            Kind::Warehouse => &self.warehouse,
            Kind::Namespace => &self.namespace,
            Kind::Table => &self.table,
            Kind::View => &self.view,
            Kind::Function => &self.function,
        }
    }

    fn identity(&self, kind: IdentityKind) -> &EntityTypeName {
        match kind {
            IdentityKind::User => &self.user,
            IdentityKind::ServiceAccount => &self.service_account,
        }
    }
}

impl Schema {
    /// Returns the entity id of a principal.
    pub(super) fn principal(&self, identity: &Identity) -> EntityUid {
        uid(self.types.identity(identity.kind), &identity.id)
    }

    /// Returns the roles and groups of a principal.
    pub(super) fn memberships(&self, identity: &Identity) -> HashSet<EntityUid> {
        let roles = identity.roles.iter().map(|role| uid(&self.types.role, role));
        let groups = identity.groups.iter().map(|group| uid(&self.types.group, group));
        roles.chain(groups).collect()
    }

    /// Returns the entity of a principal.
    pub(super) fn principal_entity(&self, identity: &Identity) -> Entity {
        let name = string(&identity.name);
        let attributes = [("name".to_owned(), name)];
        let parents = self.memberships(identity);
        entity(self.principal(identity), attributes, parents, [])
    }

    /// Returns the empty path.
    pub(super) fn root(&self) -> Path {
        let catalog = uid(&self.types.catalog, CATALOG_ID);
        Path {
            entities: vec![Entity::with_uid(catalog.clone())],
            innermost: catalog,
            id: String::new(),
            warehouse: None,
        }
    }

    /// Returns the entities of a resource and its parents. `None` if there are more than
    /// [`LEVELS_MAX`] levels. This limit is only a safeguard, because names are checked earlier.
    pub(super) fn path(&self, resource: &Resource) -> Option<Path> {
        if resource.nodes().len() > LEVELS_MAX {
            return None;
        }
        let mut path = self.root();
        for (level, node) in resource.nodes().iter().enumerate() {
            let kind = resource.kind_of(level);
            let entity = self.below(&path, kind, node);
            let warehouse = path.warehouse.take().unwrap_or_else(|| entity.uid());
            path.warehouse = Some(warehouse);
            path.innermost = entity.uid();
            push_name(&mut path.id, &node.name);
            path.entities.push(entity);
        }
        Some(path)
    }

    /// Returns the entity of an object directly below a path.
    pub(super) fn below(&self, path: &Path, kind: Kind, node: &Node) -> Entity {
        let attributes = self.attributes(path, kind, node);
        let tags = node.attributes().properties.iter();
        let tags = tags.map(|(key, value)| (key.clone(), string(value)));
        let tags: Pairs = if kind == Kind::Warehouse { Vec::new() } else { tags.collect() };
        let uid = self.uid_below(path, kind, &node.name);
        entity(uid, attributes, [path.innermost.clone()], tags)
    }

    /// Returns the entity id of an object directly below a path.
    pub(super) fn uid_below(&self, path: &Path, kind: Kind, name: &str) -> EntityUid {
        let mut id = String::with_capacity(path.id.len() + 1 + name.len());
        id.push_str(&path.id);
        push_name(&mut id, name);
        uid(self.types.of(kind), &id)
    }

    fn attributes(&self, path: &Path, kind: Kind, node: &Node) -> Pairs {
        let reference = RestrictedExpression::new_entity_uid;
        let mut pairs = vec![("name".to_owned(), string(&node.name))];
        let mut add = |key: &str, value| pairs.push((key.to_owned(), value));
        if let Some(warehouse) = &path.warehouse {
            add("warehouse", reference(warehouse.clone()));
        }
        let in_namespace = path.innermost.type_name() == &self.types.namespace;
        let container = if kind == Kind::Namespace { "parent" } else { "namespace" };
        if in_namespace {
            add(container, reference(path.innermost.clone()));
        }
        if kind == Kind::Warehouse {
            return pairs;
        }
        if let Some(owner) = &node.attributes().owner {
            add("owner", string(owner));
        }
        let has_location = matches!(kind, Kind::Table | Kind::View);
        if let Some(location) = node.attributes().location.as_ref().filter(|_| has_location) {
            add("location", string(location));
        }
        pairs
    }
}

fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

fn entity(
    uid: EntityUid,
    attributes: impl IntoIterator<Item = (String, RestrictedExpression)>,
    parents: impl IntoIterator<Item = EntityUid>,
    tags: impl IntoIterator<Item = (String, RestrictedExpression)>,
) -> Entity {
    Entity::new_with_tags(uid, attributes, parents, tags)
        .expect("strings and references need no evaluation")
}
