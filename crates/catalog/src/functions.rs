//! Creates, lists, loads, replaces and drops functions.
//!
//! The REST specification defines only how clients list and load functions. The management API
//! changes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::core::Core;
use super::listings::{Contents, Listings};
use super::lookup::{self, LOOKUP_ATTEMPTS_MAX};
use super::pipeline::Write;
use super::pipeline::records::Entry;
use super::pipeline::response::Body;
use super::{Error, Operation, RequestContext, Result};
use crate::changed::changed_function;
use crate::error::{CommitConflict, NameConflict};
use crate::protections::check_unprotected;
use slateberg_authz::action::{Action, Create, Drop, Load};
use slateberg_authz::commit_kind::CommitKind;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Kind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::function::{FunctionDraft, FunctionMetadata};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::invariants;
use slateberg_store::keys::FunctionKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::ChangeAction;

/// Functions. Cheap to clone.
#[derive(Clone)]
pub struct Functions {
    core: Arc<Core>,
    listings: Listings,
}

/// The result of a creation or replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionInfo {
    /// Full name, such as `function:prod/sales/add_tax`.
    pub resource: String,
    /// UUID of the function.
    pub uuid: Uuid,
    /// Version, which increases by one with each change.
    pub version: u64,
}

/// A replacement of the metadata of a function.
#[derive(Debug, Clone)]
pub struct FunctionReplacement {
    /// Name of the function, such as `function:prod/sales/add_tax`.
    pub resource: String,
    /// The new state.
    pub draft: FunctionDraft,
    /// The version that the caller has read. The replacement is rejected if this is not the current
    /// version. `None` for any version.
    pub expected_version: Option<u64>,
}

/// The entry of the change log for a change of a function.
pub(crate) struct FunctionChange<'a, A: Action> {
    pub(crate) action: ChangeAction,
    pub(crate) permit: &'a Permit<A>,
    pub(crate) ident: &'a TabularIdent,
    pub(crate) record: &'a FunctionRecord,
    /// Versions of the function before and after the change.
    pub(crate) versions: (Option<u64>, Option<u64>),
}

impl Functions {
    pub(crate) fn new(core: &Arc<Core>, listings: &Listings) -> Self {
        Self { core: Arc::clone(core), listings: listings.clone() }
    }

    /// Returns the names of the functions in a namespace.
    #[boxed]
    pub async fn list_functions(
        &self,
        cx: &RequestContext,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        let contents = Contents { parent: Some(namespace), kind: Kind::Function };
        self.listings.list_contents::<Load>(cx, contents, page).await
    }

    /// Returns the metadata of a function.
    #[boxed]
    pub async fn load_function(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<FunctionMetadata> {
        self.core.environment.check_findable_function(ident)?;
        let store = self.core.store().durable();
        let found = lookup::function(&store, cx.warehouse.id, ident).await?;
        let _permit: Permit<Load> =
            self.core.access.permit_function(&store, cx, ident, found.as_ref()).await?;
        found.map(|record| record.metadata).ok_or_else(|| Error::no_such_function(ident))
    }

    /// Creates a function. The namespace must exist.
    #[boxed]
    pub async fn create_function(
        &self,
        operation: &Operation,
        resource: &str,
        draft: FunctionDraft,
    ) -> Result<FunctionInfo> {
        let (cx, ident) = self.named(operation, resource)?;
        let create = |functions: Self, cx: RequestContext| async move {
            functions.create_once(&cx, &ident, draft).await.map(Body)
        };
        let Body(created) = self.core.mutate(self, &cx, create).await?;
        Ok(created)
    }

    async fn create_once(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        draft: FunctionDraft,
    ) -> Result<FunctionInfo> {
        self.core.environment.check_name(ident)?;
        let attributes = Attributes {
            properties: draft.properties.clone(),
            location: None,
            owner: cx.operation.owner(),
        };
        let node = Node::known(&ident.name, Arc::new(attributes));
        let store = self.core.store().latest();
        let new = |inside: Resource| inside.function(node);
        let permit: &Permit<Create> =
            &self.core.access.permit_new(&store, cx, Some(&ident.namespace), new).await?;
        let now_ms = self.core.now_ms();
        let metadata = &FunctionMetadata::create(self.core.ids().random(), draft, now_ms)?;
        let id = self.core.ids().random();
        let action = ChangeAction::CreateFunction;
        let created =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                let namespace = lookup::namespace(&*t, cx.warehouse.id, &ident.namespace).await?.id;
                let key = FunctionKey { namespace, name: ident.name.clone() };
                if t.get(&key).await?.is_some() {
                    return Err(Error::AlreadyExists(NameConflict::Function(ident.clone())));
                }
                let record = &FunctionRecord {
                    id,
                    warehouse: cx.warehouse.id,
                    namespace,
                    name: ident.name.clone(),
                    version: 1,
                    metadata: metadata.clone(),
                    created_ms: now_ms,
                    updated_ms: now_ms,
                    owner: cx.operation.owner(),
                };
                invariants::function_change(None, record).map_err(Error::internal)?;
                t.put(&key, record)?;
                let versions = (None, Some(record.version));
                let change = FunctionChange { action, permit, ident, record, versions };
                let response = Body(info(&cx.warehouse, ident, record));
                let records =
                    self.core.pipeline().records(&cx.operation, Some(change.entry()), &response)?;
                Ok((response.0, records))
            });
        created.await
    }

    /// Replaces the definitions, properties and documentation of a function.
    #[boxed]
    pub async fn replace_function(
        &self,
        operation: &Operation,
        replacement: FunctionReplacement,
    ) -> Result<FunctionInfo> {
        let (cx, ident) = self.named(operation, &replacement.resource)?;
        let replace = |functions: Self, cx: RequestContext| async move {
            functions.replace_once(&cx, &ident, &replacement).await.map(Body)
        };
        let Body(replaced) = self.core.mutate(self, &cx, replace).await?;
        Ok(replaced)
    }

    async fn replace_once(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        replacement: &FunctionReplacement,
    ) -> Result<FunctionInfo> {
        self.core.environment.check_findable_function(ident)?;
        let action = ChangeAction::ReplaceFunction;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let store = self.core.store().latest();
            let found = lookup::function(&store, cx.warehouse.id, ident).await?;
            let kinds = kinds_of_change(found.as_ref(), &replacement.draft);
            let known = (found.as_ref(), &kinds);
            let permit = self.core.access.permit_replacement(&store, cx, ident, known);
            let permit = &permit.await?;
            let Some(before) = &found else { return Err(Error::no_such_function(ident)) };
            check_version(ident, replacement.expected_version, before.version)?;
            let now_ms = self.core.now_ms();
            let metadata = before.metadata.replace(replacement.draft.clone(), now_ms)?;
            let is_changed = metadata != before.metadata;
            let after = match is_changed {
                true => FunctionRecord {
                    version: before.version + 1,
                    metadata,
                    updated_ms: now_ms,
                    ..before.clone()
                },
                false => before.clone(),
            };
            if is_changed {
                invariants::function_change(Some(before), &after).map_err(Error::internal)?;
            }
            let record = &after;
            let write = Write::of_records(action, permit);
            let written = self.core.pipeline().commit_if_current(write, |t| async move {
                let key = key_of(before);
                if lookup::function(&*t, cx.warehouse.id, ident).await?.as_ref() != Some(before) {
                    return Ok(None);
                }
                let versions = (Some(before.version), Some(record.version));
                let change = FunctionChange { action, permit, ident, record, versions };
                if is_changed {
                    t.put(&key, record)?;
                }
                let entry = is_changed.then(|| change.entry());
                let response = Body(info(&cx.warehouse, ident, record));
                let records = self.core.pipeline().records(&cx.operation, entry, &response)?;
                Ok(Some((response.0, records)))
            });
            if let Some(written) = written.await? {
                return Ok(written.value);
            }
        }
        Err(changing(ident))
    }

    /// Drops a function.
    #[boxed]
    pub async fn drop_function(&self, operation: &Operation, resource: &str) -> Result<()> {
        let (cx, ident) = self.named(operation, resource)?;
        let drop = |functions: Self, cx: RequestContext| async move {
            functions.drop_once(&cx, &ident).await
        };
        self.core.mutate(self, &cx, drop).await
    }

    async fn drop_once(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<()> {
        self.core.environment.check_findable_function(ident)?;
        let action = ChangeAction::DropFunction;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let store = self.core.store().latest();
            let found = lookup::function(&store, cx.warehouse.id, ident).await?;
            let permit: &Permit<Drop> =
                &self.core.access.permit_function(&store, cx, ident, found.as_ref()).await?;
            let Some(record) = &found else { return Err(Error::no_such_function(ident)) };
            let write = Write::of_records(action, permit);
            let dropped = self.core.pipeline().commit_if_current(write, |t| async move {
                if lookup::function(&*t, cx.warehouse.id, ident).await?.as_ref() != Some(record) {
                    return Ok(None);
                }
                check_unprotected(&*t, record.id, "drop").await?;
                t.delete(&key_of(record))?;
                let versions = (Some(record.version), None);
                let change = FunctionChange { action, permit, ident, record, versions };
                let entry = Some(change.entry());
                Ok(Some(((), self.core.pipeline().records(&cx.operation, entry, &())?)))
            });
            if dropped.await?.is_some() {
                return Ok(());
            }
        }
        Err(changing(ident))
    }

    /// Returns the warehouse and the name of a function that a request of the management API names.
    /// Errors for a warehouse that the caller may not see.
    fn named(
        &self,
        operation: &Operation,
        resource: &str,
    ) -> Result<(RequestContext, TabularIdent)> {
        let access = &self.core.access;
        let (warehouse, ident) = access.function_named(resource)?;
        if let Some(hidden) = access.hidden_warehouse(operation, &warehouse) {
            return Err(hidden);
        }
        let warehouse = self.core.warehouses().by_prefix(Some(&warehouse))?;
        Ok((RequestContext::new(operation.clone(), warehouse), ident))
    }
}

impl<'a, A: Action> FunctionChange<'a, A> {
    pub(crate) fn entry(&self) -> Entry<'a> {
        let Self { action, permit, ident, record, versions } = *self;
        Entry {
            action,
            warehouse: record.warehouse,
            subject: record.id,
            name: ident,
            versions,
            decision: permit.decision(),
            resource: Some(changed_function(record, &ident.namespace)),
        }
    }
}

fn key_of(record: &FunctionRecord) -> FunctionKey {
    FunctionKey { namespace: record.namespace, name: record.name.clone() }
}

fn info(warehouse: &Warehouse, ident: &TabularIdent, record: &FunctionRecord) -> FunctionInfo {
    let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
    let resource = inside.function(Node::named(&ident.name));
    FunctionInfo {
        resource: slateberg_authz::notation::resource_text(&resource),
        uuid: record.metadata.function_uuid,
        version: record.version,
    }
}

/// Returns the kinds of changes in a replacement. The set is never empty, so that a caller without
/// a permission to change the function cannot test its contents.
fn kinds_of_change(before: Option<&FunctionRecord>, draft: &FunctionDraft) -> BTreeSet<CommitKind> {
    let mut kinds = BTreeSet::from([CommitKind::Schema]);
    if before.is_some_and(|before| before.metadata.properties != draft.properties) {
        kinds.insert(CommitKind::Properties);
    }
    kinds
}

fn check_version(ident: &TabularIdent, expected: Option<u64>, current: u64) -> Result<()> {
    match expected {
        Some(expected) if expected != current => {
            Err(Error::CommitFailed(CommitConflict::Function {
                ident: ident.clone(),
                expected,
                current,
            }))
        }
        _ => Ok(()),
    }
}

fn changing(ident: &TabularIdent) -> Error {
    Error::unavailable(
        "Gave up after repeated conflicts: the function is changed concurrently. Retry later",
        ident.to_string(),
    )
}
