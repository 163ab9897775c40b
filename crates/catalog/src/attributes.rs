//! Reads the attributes of a resource and of its enclosing namespaces from their records, for
//! policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::tabular::head::Head;
use super::tabular::metadata::TabularMetadata;
use super::tabular::target::Target;
use super::version_cache::Version;
use super::{Operation, Result, lookup};
use crate::access::Access;
use slateberg_authz::action::Action;
use slateberg_authz::authority::Decider;
use slateberg_authz::resource::{Attributes, Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::keys::{NamespaceKey, NamespaceNameKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::{NamespaceRecord, TabularRecord};

/// Attributes of the warehouse and of the namespaces that enclose a resource, outermost first.
/// Empty if no policy uses them.
pub(super) type Enclosing = Vec<Arc<Attributes>>;

/// The state of a table or view that a decision was based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvaluatedVersion {
    /// No state: the decision was based on names only.
    Names,
    /// The absence of a table or view with this name.
    Absence,
    /// The attributes of this version.
    Version(Version),
}

impl EvaluatedVersion {
    /// Whether the decision still applies to this record. After the decision, another table may
    /// have taken the name, or a commit may have changed the attributes.
    pub(super) fn is_of(self, record: &TabularRecord) -> bool {
        match self {
            Self::Names => true,
            Self::Absence => false,
            Self::Version(version) => version == (record.id, record.version),
        }
    }
}

impl Access {
    /// Returns a table or view as a resource, and the state on which a decision about this resource
    /// is based. If `wanted`, the resource has the attributes of each level that exists.
    pub(super) async fn tabular_resource(
        &self,
        store: &impl StoreRead,
        wanted: bool,
        target: Target<'_>,
    ) -> Result<(Resource, EvaluatedVersion)> {
        let Target { warehouse, kind, ident } = target;
        let inside = namespace_resource(store, wanted, warehouse, &ident.namespace).await?;
        let resource = inside.tabular(kind, Node::named(&ident.name));
        if !wanted {
            return Ok((resource, EvaluatedVersion::Names));
        }
        let found = match lookup::tabular_id(store, warehouse.id, kind, ident).await? {
            Some(id) => self.attributes_of(store, kind, id).await?,
            None => None,
        };
        let (attributes, basis) = match found {
            Some((attributes, version)) => (attributes, EvaluatedVersion::Version(version)),
            None => (Attributes::default(), EvaluatedVersion::Absence),
        };
        Ok((resource.with(Arc::new(attributes)), basis))
    }

    /// Returns the attributes of a table or view if a policy on `A` uses them, otherwise empty
    /// attributes.
    pub(super) async fn attributes_for<A: Action>(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        kind: TabularKind,
        id: Uuid,
    ) -> Result<Arc<Attributes>> {
        match self.ask(operation)? {
            Decider::Policies(asking) if asking.wants_attributes(&[A::NAME]) => {
                let found = self.attributes_of(store, kind, id).await?;
                Ok(found.map(|(attributes, _)| Arc::new(attributes)).unwrap_or_default())
            }
            _ => Ok(Arc::default()),
        }
    }

    /// Returns the attributes of a table or view, and the version that has these attributes. `None`
    /// if the table or view was dropped.
    pub(super) async fn attributes_of(
        &self,
        store: &impl StoreRead,
        kind: TabularKind,
        id: Uuid,
    ) -> Result<Option<(Attributes, Version)>> {
        match kind {
            TabularKind::Table => self.attributes_by_head::<TableMetadata>(store, id).await,
            TabularKind::View => self.attributes_by_head::<ViewMetadata>(store, id).await,
        }
    }

    async fn attributes_by_head<M: TabularMetadata>(
        &self,
        store: &impl StoreRead,
        id: Uuid,
    ) -> Result<Option<(Attributes, Version)>> {
        let head = self.environment.head::<M>(store, id).await?;
        Ok(head.map(|Head { record, metadata, .. }| {
            (attributes(&record, metadata.properties()), (record.id, record.version))
        }))
    }
}

/// Returns the attributes of a table or view with this record and these properties.
pub(super) fn attributes(
    record: &TabularRecord,
    properties: &BTreeMap<String, String>,
) -> Attributes {
    Attributes {
        properties: properties.clone(),
        location: Some(record.location.clone()),
        owner: record.owner.clone(),
    }
}

pub(super) fn attributes_of_function(record: &FunctionRecord) -> Attributes {
    Attributes {
        properties: record.metadata.properties.clone(),
        location: None,
        owner: record.owner.clone(),
    }
}

pub(super) fn attributes_of_namespace(record: &NamespaceRecord) -> Attributes {
    Attributes {
        properties: record.properties.clone(),
        location: None,
        owner: record.owner.clone(),
    }
}

/// Returns the attributes of a warehouse (always empty) and of each existing level of a namespace.
pub(super) async fn attributes_of_levels(
    store: &impl StoreRead,
    warehouse: &Warehouse,
    ident: &NamespaceIdent,
) -> Result<Enclosing> {
    let mut all = vec![Arc::default()];
    let mut parent = warehouse.id;
    for level in &ident.0 {
        let key = NamespaceNameKey { parent, name: level.clone() };
        let Some(entry) = store.get(&key).await? else { break };
        let Some(record) = store.get(&NamespaceKey(entry.id)).await? else { break };
        all.push(Arc::new(attributes_of_namespace(&record)));
        parent = entry.id;
    }
    Ok(all)
}

/// Returns a namespace as a resource, with the attributes of its existing levels if `wanted`.
pub(super) async fn namespace_resource(
    store: &impl StoreRead,
    wanted: bool,
    warehouse: &Warehouse,
    ident: &NamespaceIdent,
) -> Result<Resource> {
    let resource = Resource::warehouse(&warehouse.name).namespace(ident);
    Ok(match wanted {
        true => resource.with_all(attributes_of_levels(store, warehouse, ident).await?),
        false => resource,
    })
}
