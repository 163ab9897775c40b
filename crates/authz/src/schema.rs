//! The schema: the types and actions that policies can use.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

use cedar_policy::{EntityId, EntityTypeName, EntityUid, Validator};

use super::resource::Kind;

/// Source of the schema: `policies/schema.cedarschema`.
pub(crate) const SCHEMA_TEXT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/schema.cedarschema"));

/// The parsed schema, which validates policies and creates entity ids.
#[derive(Debug)]
pub struct Schema {
    pub(super) validator: Validator,
    pub(super) types: Types,
    /// Every action and group, with the groups that contain it.
    actions: BTreeMap<String, ActionEntry>,
}

/// Names of the entity types, parsed once.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) user: EntityTypeName,
    pub(super) service_account: EntityTypeName,
    pub(super) role: EntityTypeName,
    pub(super) group: EntityTypeName,
    pub(super) catalog: EntityTypeName,
    pub(super) warehouse: EntityTypeName,
    pub(super) namespace: EntityTypeName,
    pub(super) table: EntityTypeName,
    pub(super) view: EntityTypeName,
    pub(super) function: EntityTypeName,
}

#[derive(Debug)]
struct ActionEntry {
    uid: EntityUid,
    groups: HashSet<EntityUid>,
    /// Entity types that the action applies to. Empty for a group.
    resources: Vec<EntityTypeName>,
}

impl Schema {
    /// Returns the built-in schema.
    ///
    /// # Panics
    ///
    /// Never: the source is part of the binary, and a test parses it.
    pub fn bundled() -> Self {
        let schema =
            cedar_policy::Schema::from_str(SCHEMA_TEXT).expect("the schema is well-formed");
        let entities = schema.action_entities().expect("the actions have no cycle");
        let mut actions = BTreeMap::new();
        for uid in schema.actions() {
            let entry = ActionEntry {
                uid: uid.clone(),
                groups: entities.ancestors(uid).into_iter().flatten().cloned().collect(),
                resources: schema
                    .resources_for_action(uid)
                    .into_iter()
                    .flatten()
                    .cloned()
                    .collect(),
            };
            actions.insert(uid.id().unescaped().to_owned(), entry);
        }
        Self { validator: Validator::new(schema), types: Types::parse(), actions }
    }

    /// Returns the names of all actions in alphabetical order, without groups.
    pub fn actions(&self) -> impl Iterator<Item = &str> {
        self.actions
            .iter()
            .filter(|(_, entry)| !entry.resources.is_empty())
            .map(|(name, _)| name.as_str())
    }

    /// Whether an action applies to a type of entity, such as `Table`. `None` if the action does
    /// not exist.
    pub fn applies(&self, action: &str, resource_type: &str) -> Option<bool> {
        let entry = self.actions.get(action).filter(|entry| !entry.resources.is_empty())?;
        Some(entry.resources.iter().any(|name| name.basename() == resource_type))
    }

    /// Returns the action with this name, or the members of the group. Empty if neither exists.
    pub fn members(&self, name: &str) -> Vec<&str> {
        let Some(named) = self.actions.get(name) else { return Vec::new() };
        let is_member =
            |entry: &ActionEntry| entry.uid == named.uid || entry.groups.contains(&named.uid);
        self.actions
            .iter()
            .filter(|(_, entry)| !entry.resources.is_empty() && is_member(entry))
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Returns the action with this name, if it applies to a type of resource. `None` for a group,
    /// because a decision concerns a single action.
    pub(super) fn action_on(&self, name: &str, kind: Kind) -> Option<&EntityUid> {
        let applies = |entry: &&ActionEntry| entry.resources.contains(self.types.of(kind));
        self.actions.get(name).filter(applies).map(|entry| &entry.uid)
    }

    pub(super) fn action(&self, name: &str) -> Option<&EntityUid> {
        self.actions.get(name).map(|entry| &entry.uid)
    }

    /// Returns all groups that contain an action, directly or not.
    pub(super) fn groups_of(&self, name: &str) -> Option<&HashSet<EntityUid>> {
        self.actions.get(name).map(|entry| &entry.groups)
    }
}

impl Types {
    fn parse() -> Self {
        let name = |text| EntityTypeName::from_str(text).expect("the name is well-formed");
        Self {
            user: name("User"),
            service_account: name("ServiceAccount"),
            role: name("Role"),
            group: name("Group"),
            catalog: name("Catalog"),
            warehouse: name("Warehouse"),
            namespace: name("Namespace"),
            table: name("Table"),
            view: name("View"),
            function: name("Function"),
        }
    }
}

/// Creates the id of an entity.
pub(super) fn uid(name: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(name.clone(), EntityId::new(id))
}
