//! The table of a scan, and the locations whose manifests the server reads.

use std::sync::Arc;

use uuid::Uuid;

use super::Planning;
use super::readable_rows::{ReadableRows, RowFilter};
use super::request::ReadableTable;
use crate::error::UnreadableManifests;
use crate::loadable::Loadable;
use crate::location_index::{is_alone, is_generated_for, locations_of};
use crate::lookup::{LOOKUP_ATTEMPTS_MAX, text_of};
use crate::tabular::delegation::DelegatedAccess;
use crate::tabular::read_access::{EnforcedRules, Enforcement, resolved_or_forbidden};
use crate::tabular::target::Target;
use crate::version_cache::CachedVersion;
use crate::{Error, RequestContext, Result};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Delegation;
use slateberg_objects::location::Location;
use slateberg_objects::vend::files::Privileges;
use slateberg_store::keys::{PublicationKey, TabularKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;

/// Privileges of credentials for a scan.
const READ: Privileges = Privileges { read: true, write: false, delete: false };

/// A table whose files the caller may read.
#[derive(Clone)]
pub(super) struct PlannedTable {
    pub(super) record: Arc<TabularRecord>,
    pub(super) metadata: Arc<TableMetadata>,
    /// The rows that the caller may read.
    pub(super) rows: ReadableRows,
    /// Size of the metadata as JSON, in bytes.
    pub(super) metadata_bytes: u64,
    /// The locations that belong to this table only.
    pub(super) own_locations: Vec<Location>,
}

impl PlannedTable {
    /// Returns the table for the binding of a scan.
    pub(super) fn readable(&self) -> ReadableTable<'_> {
        let restrictions = match &self.rows {
            ReadableRows::Restricted(restrictions) => Some(&**restrictions),
            // The filter of the client selects among the permitted files.
            ReadableRows::All | ReadableRows::InPermittedFiles(_) => None,
        };
        ReadableTable { metadata: &self.metadata, restrictions }
    }

    /// Returns the table with all its files.
    pub(super) fn with_all_files(self) -> Self {
        Self { rows: ReadableRows::All, ..self }
    }

    /// Rejects a file outside of the table's own locations. The server reads files with its own
    /// credentials. A commit must not make the server read the files of other tables.
    pub(super) fn check_own(&self, file: &str) -> Result<()> {
        let location = Location::parse(file).ok();
        let is_own = |root: &Location| location.as_ref().is_some_and(|file| file.is_within(root));
        if self.own_locations.iter().any(is_own) {
            return Ok(());
        }
        Err(Error::NotPlannable(UnreadableManifests::ForeignManifest(file.to_owned())))
    }
}

impl Planning {
    /// Returns the table of a request. Errors with `Forbidden` if the caller may not read its
    /// files.
    pub(super) async fn table(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<PlannedTable> {
        let (core, kind) = (&self.core, TabularKind::Table);
        core.environment.check_findable(kind, ident)?;
        let store = core.store().durable();
        let target = Target { warehouse: &cx.warehouse, kind, ident };
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let Loadable { rules, rights, record, .. } =
                core.access.loadable(&store, &cx.operation, target, true).await?;
            if rules.as_ref().is_some_and(|rules| rules.enforcement == Enforcement::NoFiles) {
                return Err(forbidden(ident, "the principal may read only a part of it"));
            }
            if !rights.privileges.read {
                return Err(forbidden(ident, "reading its files is not allowed"));
            }
            let version = (record.id, record.version);
            let key = PublicationKey { id: record.id, version: record.version };
            core.pipeline().pending.wait(key, core.settings().commit_deadline()).await?;
            let cached = match core.pipeline().versions.get(version) {
                Some(cached) => cached,
                None => {
                    let Some(text) = text_of(&store, &record).await? else { continue };
                    CachedVersion { text, parsed: None }
                }
            };
            let metadata = core.environment.parsed::<TableMetadata>(version, &cached)?;
            let rows = match &rules {
                None => ReadableRows::All,
                Some(rules) => readable_rows(rules, ident, &metadata)?,
            };
            let own_locations = self.own_locations(&record).await?;
            let metadata_bytes = cached.text.len() as u64;
            return Ok(PlannedTable { record, metadata, rows, metadata_bytes, own_locations });
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident.to_string(),
        ))
    }

    /// Returns a table with all its files, for work of the server itself. `None` if its version is
    /// still `known`, or if the table was dropped or is being changed.
    pub(super) async fn table_by_id(&self, id: Uuid, known: u64) -> Result<Option<PlannedTable>> {
        let store = self.core.store().durable();
        let record = store.get(&TabularKey(id)).await?.filter(|record| record.version != known);
        let Some(record) = record else { return Ok(None) };
        let Some(text) = text_of(&store, &record).await? else { return Ok(None) };
        let (version, metadata_bytes) = ((id, record.version), text.len() as u64);
        let cached = CachedVersion { text, parsed: None };
        let metadata = self.core.environment.parsed::<TableMetadata>(version, &cached)?;
        let own_locations = self.own_locations(&record).await?;
        let (record, rows) = (Arc::new(record), ReadableRows::All);
        Ok(Some(PlannedTable { record, metadata, rows, metadata_bytes, own_locations }))
    }

    /// Like [`table`](Self::table), for reports on all files of the table. Errors with `Forbidden` if
    /// the caller may read only permitted files, because the reports disclose values of other files.
    pub(super) async fn table_with_all_files(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<PlannedTable> {
        let table = self.table(cx, ident).await?;
        match table.rows {
            ReadableRows::All | ReadableRows::Restricted(_) => Ok(table),
            ReadableRows::InPermittedFiles(_) => {
                Err(forbidden(ident, "the principal may read only a part of its files"))
            }
        }
    }

    /// Returns the locations of a table that contain no files of other tables.
    async fn own_locations(&self, record: &TabularRecord) -> Result<Vec<Location>> {
        let store = self.core.store().latest();
        let mut own = Vec::new();
        for location in locations_of(record).filter_map(|text| Location::parse(text).ok()) {
            if is_generated_for(&location, record.id)
                || is_alone(&store, record.id, &location).await?
            {
                own.push(location);
            }
        }
        Ok(own)
    }

    /// Returns the access to the table's files for a client that requests one of the `wanted`
    /// modes.
    pub(super) async fn read_access(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        table: &PlannedTable,
        wanted: Option<&[Delegation]>,
    ) -> Result<Option<DelegatedAccess>> {
        let Some(wanted) = wanted else { return Ok(None) };
        if matches!(table.rows, ReadableRows::InPermittedFiles(_)) {
            // The client gets signatures, as the response to the load of the table says.
            return Ok(None);
        }
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        self.delegations.delegated(target, &table.record, READ.into(), wanted).await
    }
}

/// Returns the rows that a caller with these rules may read.
fn readable_rows(
    rules: &EnforcedRules,
    ident: &TabularIdent,
    metadata: &TableMetadata,
) -> Result<ReadableRows> {
    let restrictions = resolved_or_forbidden(rules, ident, metadata)?;
    match rules.enforcement {
        Enforcement::NoFiles => Err(forbidden(ident, "the principal may read only a part of it")),
        Enforcement::TrustedEngine => Ok(ReadableRows::Restricted(restrictions)),
        Enforcement::PermittedFiles if restrictions.masks.is_empty() => {
            let (rules, _) = rules.key();
            Ok(ReadableRows::InPermittedFiles(RowFilter { rules, restrictions }))
        }
        Enforcement::PermittedFiles => {
            Err(forbidden(ident, "columns are masked for the principal, but are in its files"))
        }
    }
}

fn forbidden(ident: &TabularIdent, why: &str) -> Error {
    Error::Forbidden(format!("Not allowed: planning a scan of {}: {why}", brief(ident)))
}
