//! Describes changed resources for the change log. The change feed reads these descriptions.

use slateberg_authz::resource::{Kind, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_store::functions::FunctionRecord;
use slateberg_store::records::{ChangedKind, ChangedResource, PreviousName, TabularRecord};

fn described(kind: ChangedKind, namespace: &[String], name: Option<&str>) -> ChangedResource {
    ChangedResource {
        kind,
        namespace: namespace.to_vec(),
        name: name.map(ToOwned::to_owned),
        renamed_from: None,
        uuid: None,
        metadata_before: None,
        metadata_after: None,
        snapshots: Default::default(),
        operations: Vec::new(),
    }
}

/// Describes a warehouse.
pub(crate) fn changed_warehouse(name: &str) -> ChangedResource {
    described(ChangedKind::Warehouse, &[], Some(name))
}

/// Describes a namespace.
pub(crate) fn changed_namespace(ident: &NamespaceIdent) -> ChangedResource {
    described(ChangedKind::Namespace, &ident.0, None)
}

/// Describes a table or view in this namespace.
pub(crate) fn changed_tabular(
    record: &TabularRecord,
    namespace: &NamespaceIdent,
) -> ChangedResource {
    let uuid = Some(record.uuid);
    let kind = record.kind.into();
    ChangedResource { uuid, ..described(kind, &namespace.0, Some(&record.name)) }
}

/// Describes a function in this namespace.
pub(crate) fn changed_function(
    record: &FunctionRecord,
    namespace: &NamespaceIdent,
) -> ChangedResource {
    let described = described(ChangedKind::Function, &namespace.0, Some(&record.name));
    ChangedResource { uuid: Some(record.metadata.function_uuid), ..described }
}

/// Describes a table or view that a change removed.
pub(crate) fn removed(record: &TabularRecord, namespace: &NamespaceIdent) -> ChangedResource {
    let metadata_before = Some(record.metadata_location.clone());
    ChangedResource { metadata_before, ..changed_tabular(record, namespace) }
}

/// Describes a table or view that had another name before the change.
pub(crate) fn renamed(
    record: &TabularRecord,
    namespace: &NamespaceIdent,
    before: &TabularIdent,
) -> ChangedResource {
    let before = PreviousName { namespace: before.namespace.0.clone(), name: before.name.clone() };
    ChangedResource { renamed_from: Some(before), ..changed_tabular(record, namespace) }
}

/// Describes a resource by its name. `None` for the catalog.
pub(crate) fn changed(resource: &Resource) -> Option<ChangedResource> {
    let mut levels: Vec<_> =
        resource.nodes().iter().skip(1).map(|level| level.name.to_string()).collect();
    Some(match resource.kind() {
        Kind::Catalog => return None,
        Kind::Warehouse => changed_warehouse(resource.warehouse_name()?),
        Kind::Namespace => described(ChangedKind::Namespace, &levels, None),
        kind @ (Kind::Table | Kind::View | Kind::Function) => {
            let name = levels.pop();
            let kind = match kind {
                Kind::View => ChangedKind::View,
                Kind::Function => ChangedKind::Function,
                _ => ChangedKind::Table,
            };
            described(kind, &levels, name.as_deref())
        }
    })
}
