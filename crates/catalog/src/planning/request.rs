//! [`ScanRequest`], and [`Scan`]: a request that is bound to its table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::token::{RequestBody, Selection, Token};
use crate::{Error, Result};
use slateberg_model::read_restrictions::ReadRestrictions;
use slateberg_model::scan::{
    BoundSpec, FilterLimits, RestrictedSchema, ScanError, ScanFilter, ScanSnapshots,
    SnapshotSelection, SpecFilter,
};
use slateberg_model::schema::Schema;
use slateberg_model::table::TableMetadata;
use slateberg_model::types::{NestedField, Type};

/// Default of `inline_tasks_max`.
const INLINE_TASKS_MAX: usize = 2000;
/// Maximum number of columns whose statistics a client can request.
const STATISTICS_COLUMNS_MAX: usize = 10_000;

/// A request to plan a scan.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The snapshots to scan.
    pub snapshots: SnapshotSelection,
    /// The filter as JSON. `None`: all rows.
    pub filter: Option<String>,
    /// Whether column names are case-sensitive.
    pub case_sensitive: bool,
    /// Whether to use the schema of the snapshot instead of the current one.
    pub use_snapshot_schema: bool,
    /// Columns whose statistics the response contains. Unknown names are ignored.
    pub statistics: Vec<String>,
    /// Number of rows that are sufficient for the client.
    pub rows_requested_min: Option<i64>,
    /// Maximum number of files in the response. The remaining files become plan tasks. The files of
    /// the first range are always in the response, even if there are more than this maximum.
    pub inline_tasks_max: usize,
    /// Whether the client waits for the plan, however long it takes.
    pub client_waits: bool,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            snapshots: SnapshotSelection::default(),
            filter: None,
            case_sensitive: true,
            use_snapshot_schema: false,
            statistics: Vec::new(),
            rows_requested_min: None,
            inline_tasks_max: INLINE_TASKS_MAX,
            client_waits: false,
        }
    }
}

/// A table, and the read restrictions of the caller.
#[derive(Clone, Copy)]
pub(super) struct ReadableTable<'a> {
    pub(super) metadata: &'a Arc<TableMetadata>,
    pub(super) restrictions: Option<&'a ReadRestrictions>,
}

/// A partition spec, and the filter projected through it.
#[derive(Clone)]
pub(super) struct ScanSpec {
    pub(super) spec: Arc<BoundSpec>,
    pub(super) filter: Arc<SpecFilter>,
}

/// A scan that is bound to its table.
pub(super) struct Scan {
    pub(super) snapshots: ScanSnapshots,
    /// The snapshots, for tokens.
    pub(super) selection: Selection,
    pub(super) schema: Arc<Schema>,
    pub(super) filter: ScanFilter,
    pub(super) specs: BTreeMap<i32, ScanSpec>,
    /// The columns whose statistics the response contains: those that the client requested,
    /// without masked ones.
    pub(super) statistics: Vec<i32>,
    /// The part of the request that tokens contain.
    pub(super) body: RequestBody,
    pub(super) inline_tasks_max: usize,
    /// Number of rows that are sufficient for the client.
    pub(super) rows_requested_min: Option<i64>,
}

impl Scan {
    /// Binds a request.
    pub(super) fn bind(table: ReadableTable<'_>, request: &ScanRequest) -> Result<Self> {
        if request.rows_requested_min.is_some_and(|rows| rows < 0) {
            let message = "Invalid scan: min-rows-requested is negative";
            return Err(Error::Invalid(message.to_owned()));
        }
        let metadata = table.metadata;
        let snapshots = request.snapshots.resolve(metadata)?;
        let schema = Arc::clone(snapshots.schema(metadata, request.use_snapshot_schema)?);
        let columns = Columns::of(&schema, request.case_sensitive);
        let mut ids: Vec<_> =
            request.statistics.iter().filter_map(|name| columns.id(name)).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() > STATISTICS_COLUMNS_MAX {
            return Err(Error::Invalid("Invalid scan: too many stats-fields".to_owned()));
        }
        let body = RequestBody {
            filter: request.filter.clone(),
            case_sensitive: request.case_sensitive,
            statistics: ids,
        };
        let scan = Self::new(table, (snapshots, request.snapshots), schema, body)?;
        let ScanRequest { inline_tasks_max, rows_requested_min, .. } = *request;
        Ok(Self { inline_tasks_max, rows_requested_min, ..scan })
    }

    /// Binds the request of a token. `None` if the table no longer has the snapshots or the schema
    /// of the request. Also `None` if the request is invalid, as in a forged token.
    pub(super) fn of_token(
        table: ReadableTable<'_>,
        token: &Token,
        body: RequestBody,
    ) -> Option<Self> {
        let snapshots = match token.selection {
            Selection::Empty => (ScanSnapshots::Empty, SnapshotSelection::default()),
            Selection::Snapshots(selection) => (selection.resolve(table.metadata).ok()?, selection),
        };
        let has_id = |schema: &&Arc<Schema>| schema.schema_id() == token.schema_id;
        let schema = Arc::clone(table.metadata.schemas.iter().find(has_id)?);
        Self::new(table, snapshots, schema, body).ok()
    }

    fn new(
        table: ReadableTable<'_>,
        (snapshots, requested): (ScanSnapshots, SnapshotSelection),
        schema: Arc<Schema>,
        body: RequestBody,
    ) -> Result<Self> {
        let limits = FilterLimits::default();
        let filter = match &body.filter {
            None => ScanFilter::all_rows(),
            Some(text) => ScanFilter::parse(text, &limits, &schema, body.case_sensitive)?,
        };
        let (filter, statistics) = match table.restrictions {
            None => (filter, body.statistics.clone()),
            Some(restrictions) => {
                let current = table.metadata.current_schema()?;
                let restricted = RestrictedSchema::new(restrictions, current, &schema)?;
                let filter = restricted.restrict(&filter)?.ok_or_else(inapplicable_row_filter)?;
                (filter, restricted.without_masked(&body.statistics))
            }
        };
        let bound = |spec: BoundSpec| {
            let projected = Arc::new(filter.for_spec(&spec));
            (spec.spec_id, ScanSpec { spec: Arc::new(spec), filter: projected })
        };
        let specs = BoundSpec::all(table.metadata, &schema).into_values().map(bound).collect();
        let selection = match &snapshots {
            ScanSnapshots::Empty => Selection::Empty,
            ScanSnapshots::Snapshot(snapshot) => Selection::Snapshots(SnapshotSelection {
                snapshot_id: Some(snapshot.snapshot_id),
                ..SnapshotSelection::default()
            }),
            ScanSnapshots::Appends(_) => Selection::Snapshots(requested),
        };
        Ok(Self {
            snapshots,
            selection,
            schema,
            filter,
            specs,
            statistics,
            body,
            inline_tasks_max: INLINE_TASKS_MAX,
            rows_requested_min: None,
        })
    }

    /// Returns a spec of the table.
    pub(super) fn spec(&self, spec_id: i32) -> Result<&ScanSpec> {
        self.specs.get(&spec_id).ok_or_else(|| {
            let message = format!("The table has no partition spec {spec_id} of its manifest");
            Error::Scan(ScanError::Validation(message))
        })
    }

    /// Returns the columns whose statistics evaluation and response need.
    pub(super) fn needed_columns(&self) -> BTreeSet<i32> {
        let mut ids = self.filter.field_ids();
        ids.extend(&self.statistics);
        ids
    }
}

fn inapplicable_row_filter() -> Error {
    Error::Forbidden(
        "Not allowed: planning a scan with this schema of the table: the row filter of the principal uses \
         a column that this schema does not have, or has with another type. Use the current schema"
            .to_owned(),
    )
}

/// The columns of a schema by full name.
struct Columns {
    ids: BTreeMap<String, i32>,
    case_sensitive: bool,
}

impl Columns {
    fn of(schema: &Schema, case_sensitive: bool) -> Self {
        let mut columns = Self { ids: BTreeMap::new(), case_sensitive };
        columns.add_all(schema.fields(), "");
        columns
    }

    fn id(&self, name: &str) -> Option<i32> {
        match self.case_sensitive {
            true => self.ids.get(name).copied(),
            false => self.ids.get(&name.to_lowercase()).copied(),
        }
    }

    fn add_all<'a>(&mut self, fields: impl IntoIterator<Item = &'a NestedField>, prefix: &str) {
        fields.into_iter().for_each(|field| self.add(field, prefix));
    }

    fn add(&mut self, field: &NestedField, prefix: &str) {
        let name = match prefix {
            "" => field.name.clone(),
            prefix => format!("{prefix}.{}", field.name),
        };
        match &field.field_type {
            Type::Primitive(_) | Type::Variant => {}
            Type::Struct(fields) => self.add_all(fields, &name),
            Type::List(element) => self.add(element, &name),
            Type::Map(map) => self.add_all([&map.key, &map.value], &name),
        }
        let name = if self.case_sensitive { name } else { name.to_lowercase() };
        self.ids.insert(name, field.id);
    }
}
