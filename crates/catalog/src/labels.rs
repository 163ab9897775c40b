//! [`Labels`]: labels of tables, views and their columns.
//!
//! A record contains all labels of a table or view. Its key is the id, so the labels survive a
//! rename and an undrop. Each change gives the record a new revision. The revision belongs to the
//! ETag and to the key of a cached response, because a change of labels creates no new version of
//! the table or view.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::core::Core;
use super::loadable::Loadable;
use crate::changed::changed_tabular;
use crate::lookup::{self, LOOKUP_ATTEMPTS_MAX};
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::resource_lookup::{NamedResource, VISIBILITY_ACTIONS};
use crate::tabular::metadata::metadata_of;
use crate::tabular::target::Target;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Action, ManageLabels};
use slateberg_authz::authority::Decider;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::schema::Schema;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_store::keys::{LabelsKey, TabularKey};
pub use slateberg_store::labels::LabelsRecord;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, TabularRecord};

/// Maximum number of labels of a table or view, or of a column.
const LABELS_MAX: usize = 50;
/// Maximum length of a key, in bytes.
const KEY_BYTES_MAX: usize = 128;
/// Maximum length of a value, in bytes.
const VALUE_BYTES_MAX: usize = 1024;
/// Maximum length of all labels of a table or view and of its columns, in bytes.
const TOTAL_BYTES_MAX: usize = 64 << 10;

/// Labels. Cheap to clone.
#[derive(Clone)]
pub struct Labels {
    core: Arc<Core>,
}

/// A change of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelUpdate {
    /// The table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The table or view itself, or one of its columns.
    pub target: LabelTarget,
    /// The labels to set.
    pub set: BTreeMap<String, String>,
    /// The keys of the labels to remove.
    pub remove: Vec<String>,
}

/// The owner of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelTarget {
    /// The table or view itself.
    Object,
    /// The column with this id.
    Field(i32),
    /// The column with this full name in the current schema.
    Column(String),
}

/// The labels of a table or view and of its columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelsInfo {
    /// The table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The labels. `None` if there are none.
    pub record: Option<LabelsRecord>,
    /// The names of those columns that have labels and are in the current schema.
    pub columns: BTreeMap<i32, String>,
}

/// A table or view whose labels a request names.
struct Labeled {
    cx: RequestContext,
    kind: TabularKind,
    ident: TabularIdent,
    resource: Resource,
}

impl Labels {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the labels of a table or view and of its columns. The caller needs `Load` on it.
    #[boxed]
    pub async fn of(&self, operation: &Operation, resource: &str) -> Result<LabelsInfo> {
        let labeled = self.named(operation, resource)?;
        let Labeled { cx, kind, ident, .. } = &labeled;
        let target = Target { warehouse: &cx.warehouse, kind: *kind, ident };
        let store = self.core.store().durable();
        let access = &self.core.access;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let Loadable { record, .. } = access.loadable(&store, operation, target, false).await?;
            let Some(schema) = current_schema(&store, &record).await? else { continue };
            let labels = store.get(&LabelsKey(record.id)).await?;
            return info(&labeled.resource, labels, &schema);
        }
        Err(changing(ident))
    }

    /// Sets and removes labels of a table or view, or of one of its columns. Returns all labels of
    /// the table or view and of its columns.
    #[boxed]
    pub async fn update(&self, operation: &Operation, update: LabelUpdate) -> Result<LabelsInfo> {
        check_labels(&update)?;
        let work = |labels: Self, operation: Operation| async move {
            labels.update_once(&operation, &update).await.map(Body)
        };
        let Body(updated) = self.core.mutate(self, operation, work).await?;
        Ok(updated)
    }

    async fn update_once(&self, operation: &Operation, update: &LabelUpdate) -> Result<LabelsInfo> {
        let labeled = &self.named(operation, &update.resource)?;
        let Labeled { cx, kind, ident, resource } = labeled;
        let actions = [&VISIBILITY_ACTIONS[..], &[ManageLabels::NAME]].concat();
        let described = &self.core.access.described(resource.clone(), &actions).await?;
        let permit = &self.permit(operation, described)?;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let store = self.core.store().latest();
            let record = lookup::tabular_record(&store, cx.warehouse.id, *kind, ident).await?;
            let Some(schema) = current_schema(&store, &record).await? else { continue };
            let field = field_id(update, &schema)?;
            if let Some(updated) =
                self.write(labeled, (update, field), permit, (&record, &schema)).await?
            {
                return Ok(updated);
            }
        }
        Err(changing(ident))
    }

    /// Writes the changed labels. Returns `None` if another table or view has the name by then.
    async fn write(
        &self,
        labeled: &Labeled,
        (update, field): (&LabelUpdate, Option<i32>),
        permit: &Permit<ManageLabels>,
        (record, schema): (&TabularRecord, &Schema),
    ) -> Result<Option<LabelsInfo>> {
        let Labeled { cx, ident, resource, .. } = labeled;
        let action = ChangeAction::UpdateLabels;
        let write = Write::of_records(action, permit);
        let revision = self.core.ids().random();
        let key = LabelsKey(record.id);
        let written = self.core.pipeline().commit_if_current(write, |t| async move {
            let current = t.get(&TabularKey(record.id)).await?;
            let has_name =
                |it: &TabularRecord| it.namespace == record.namespace && it.name == record.name;
            if !current.as_ref().is_some_and(has_name) {
                return Ok(None);
            }
            let before = t.get(&key).await?;
            let after = changed_labels(before.as_ref(), update, field, revision)?;
            match &after {
                _ if after == before => {}
                Some(after) => t.put(&key, after)?,
                None => t.delete(&key)?,
            }
            let entry = (after != before).then(|| Entry {
                action,
                warehouse: cx.warehouse.id,
                subject: record.id,
                name: ident,
                versions: (None, None),
                decision: permit.decision(),
                resource: Some(changed_tabular(record, &ident.namespace)),
            });
            let response = Body(info(resource, after, schema)?);
            let records = self.core.pipeline().records(&cx.operation, entry, &response)?;
            Ok(Some((response.0, records)))
        });
        Ok(written.await?.map(|written| written.value))
    }

    /// Returns the table or view that a request names. Errors for a warehouse that the caller may
    /// not see.
    fn named(&self, operation: &Operation, name: &str) -> Result<Labeled> {
        let access = &self.core.access;
        let (warehouse, kind, ident) = access.tabular_named(name)?;
        self.core.environment.check_findable(kind, &ident)?;
        if let Some(hidden) = access.hidden_warehouse(operation, &warehouse) {
            return Err(hidden);
        }
        let warehouse = self.core.warehouses().by_prefix(Some(&warehouse))?;
        let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
        let resource = inside.tabular(kind, Node::named(&ident.name));
        let cx = RequestContext::new(operation.clone(), warehouse);
        Ok(Labeled { cx, kind, ident, resource })
    }

    fn permit(
        &self,
        operation: &Operation,
        described: &NamedResource,
    ) -> Result<Permit<ManageLabels>> {
        match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => Ok(unrestricted.permit()),
            Decider::Policies(asking) => {
                self.core.access.permit_named(operation, &asking, described)
            }
        }
    }
}

/// Rejects labels beyond the limits of a single label, and requests without a change.
fn check_labels(update: &LabelUpdate) -> Result<()> {
    let LabelUpdate { set, remove, .. } = update;
    if set.is_empty() && remove.is_empty() {
        return Err(Error::Invalid("Invalid labels: expected set or remove".to_owned()));
    }
    for (key, value) in set {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "Invalid label '{}': a key has 1 to {KEY_BYTES_MAX} bytes",
                brief(key)
            )));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "Invalid label '{}': a value has at most {VALUE_BYTES_MAX} bytes",
                brief(key)
            )));
        }
    }
    match remove.iter().find(|key| set.contains_key(*key)) {
        None => Ok(()),
        Some(key) => {
            let key = brief(key);
            Err(Error::Invalid(format!("Invalid label '{key}': it is both set and removed")))
        }
    }
}

/// Returns the id of the column that a change names. `None` for a change of the table or view
/// itself. Labels of a column that was dropped from the schema can still be removed.
fn field_id(update: &LabelUpdate, schema: &Schema) -> Result<Option<i32>> {
    let unknown = |column: String| {
        Error::Invalid(format!("Invalid column '{column}': it is not in the current schema"))
    };
    match &update.target {
        LabelTarget::Object => Ok(None),
        LabelTarget::Column(name) => {
            schema.field_id(name)?.map(Some).ok_or_else(|| unknown(brief(name).to_string()))
        }
        LabelTarget::Field(id) if update.set.is_empty() => Ok(Some(*id)),
        LabelTarget::Field(id) => match schema.full_names()?.contains_key(id) {
            true => Ok(Some(*id)),
            false => Err(unknown(id.to_string())),
        },
    }
}

/// Returns the labels after a change. `None` if there are none.
fn changed_labels(
    before: Option<&LabelsRecord>,
    update: &LabelUpdate,
    field: Option<i32>,
    revision: Uuid,
) -> Result<Option<LabelsRecord>> {
    let (mut object, mut fields) =
        before.map(|it| (it.object.clone(), it.fields.clone())).unwrap_or_default();
    let labels = match field {
        None => &mut object,
        Some(id) => fields.entry(id).or_default(),
    };
    for key in &update.remove {
        labels.remove(key);
    }
    labels.extend(update.set.clone());
    if labels.len() > LABELS_MAX {
        return Err(Error::Invalid(format!(
            "Too many labels: a table, view or column has at most {LABELS_MAX}"
        )));
    }
    fields.retain(|_, labels| !labels.is_empty());
    let all = fields.values().chain([&object]).flatten();
    let bytes: usize = all.map(|(key, value)| key.len() + value.len()).sum();
    if bytes > TOTAL_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "Too many labels: those of a table or view and of its columns together have at most \
             {TOTAL_BYTES_MAX} bytes"
        )));
    }
    let is_same = before.is_some_and(|it| it.object == object && it.fields == fields);
    let revision = before.filter(|_| is_same).map_or(revision, |it| it.revision);
    let has_labels = !object.is_empty() || !fields.is_empty();
    Ok(has_labels.then_some(LabelsRecord { revision, object, fields }))
}

/// Returns the current schema of a table or view. `None` if its metadata has another version than
/// the record.
async fn current_schema(
    store: &impl StoreRead,
    record: &TabularRecord,
) -> Result<Option<Arc<Schema>>> {
    let Some(text) = lookup::text_of(store, record).await? else { return Ok(None) };
    let schema = match record.kind {
        TabularKind::Table => {
            Arc::clone(metadata_of::<TableMetadata>(record.id, &text)?.current_schema()?)
        }
        TabularKind::View => {
            Arc::clone(metadata_of::<ViewMetadata>(record.id, &text)?.current_schema()?)
        }
    };
    Ok(Some(schema))
}

fn info(resource: &Resource, record: Option<LabelsRecord>, schema: &Schema) -> Result<LabelsInfo> {
    let mut columns = schema.full_names()?;
    columns.retain(|id, _| record.as_ref().is_some_and(|it| it.fields.contains_key(id)));
    Ok(LabelsInfo { resource: notation::resource_text(resource), record, columns })
}

fn changing(ident: &TabularIdent) -> Error {
    Error::unavailable(
        "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
        ident.to_string(),
    )
}
