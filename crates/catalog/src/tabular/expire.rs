//! Expiry of snapshots: a commit removes the snapshots from a table, and a job deletes the files
//! that only these snapshots needed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::builder::CommitBuilder;
use super::commit::{COMMIT_ATTEMPTS_MAX, too_many_conflicts};
use super::head::Head;
use super::metadata::TabularMetadata;
use super::state::NewVersion;
use super::target::Target;
use crate::jobs::table_of;
use crate::pipeline::Write;
use crate::pipeline::lanes::LaneGuard;
use crate::pipeline::response::Body;
use crate::tabular::Tabulars;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_authz::action::Purge;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::expiry::{Expiry, ExpiryRequest, SnapshotFiles};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::table::{FORMAT_VERSION_ADOPTED, TableMetadata};
use slateberg_store::jobs::JobWork;
use slateberg_store::records::ChangeAction;

/// The name of the transaction.
const ACTION: ChangeAction = ChangeAction::ExpireSnapshots;

/// A request to expire snapshots of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotExpiry {
    /// The table, as `table:prod/sales/orders`.
    pub resource: String,
    /// The retention that the caller requests. For values that the caller does not set, the table's
    /// properties decide.
    pub retention: ExpiryRequest,
    /// Whether the request only returns what would expire.
    pub dry_run: bool,
}

/// Snapshots, branches and tags that expired, or that would expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredSnapshots {
    /// The snapshots, in the order in which they were added.
    pub snapshots: Vec<ExpiredSnapshot>,
    /// Branches and tags.
    pub refs: Vec<String>,
    /// The number of snapshots that remain.
    pub remaining: usize,
    /// The job that deletes the files. `None` if nothing expired, if this is a dry run, or if this
    /// catalog is a clone (whose files stay).
    pub job: Option<Uuid>,
}

/// A snapshot that expired, or would expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredSnapshot {
    /// Its id.
    pub id: i64,
    /// The time of its creation, by the clock of its writer, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl ExpiredSnapshots {
    fn of(expiry: &Expiry, table: &TableMetadata) -> Self {
        let ids: HashSet<i64> = expiry.snapshots.iter().copied().collect();
        let snapshots = table.snapshots.iter().filter(|it| ids.contains(&it.snapshot_id));
        let snapshots = snapshots
            .map(|it| ExpiredSnapshot { id: it.snapshot_id, timestamp_ms: it.timestamp_ms })
            .collect();
        let remaining = table.snapshots.len() - expiry.snapshots.len();
        Self { snapshots, refs: expiry.refs.clone(), remaining, job: None }
    }
}

impl Tabulars {
    /// Removes the expired snapshots, branches and tags of a table: those whose retention has
    /// ended. A background job deletes the files that no other snapshot needs. The caller needs
    /// `Purge` on the table.
    #[boxed]
    pub async fn expire_snapshots(
        &self,
        operation: &Operation,
        request: SnapshotExpiry,
    ) -> Result<ExpiredSnapshots> {
        let of_views = "Views have no snapshots";
        let (cx, ident) = self.core.table_named(operation, &request.resource, of_views)?;
        self.core.environment.check_findable(TabularKind::Table, &ident)?;
        if request.dry_run {
            return self.expired_snapshots(&cx, &ident, request.retention).await;
        }
        self.expire_table(&cx, ident, request.retention).await
    }

    /// Expires the snapshots of a table as one operation: it continues if the caller is dropped.
    pub(crate) async fn expire_table(
        &self,
        cx: &RequestContext,
        ident: TabularIdent,
        retention: ExpiryRequest,
    ) -> Result<ExpiredSnapshots> {
        let expire = move |tabulars: Self, cx: RequestContext| async move {
            tabulars.expire_once(&cx, &ident, retention).await.map(Body)
        };
        let Body(expired) = self.core.mutate(self, cx, expire).await?;
        self.jobs.announce_jobs();
        Ok(expired)
    }

    /// Returns what would expire now.
    async fn expired_snapshots(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        retention: ExpiryRequest,
    ) -> Result<ExpiredSnapshots> {
        let _permit = self.permit_expiry(cx, ident).await?;
        let (_, head) = self.current_table(cx, ident).await?;
        let expiry = self.expiry_of(cx, ident, &head, retention).await?;
        Ok(ExpiredSnapshots::of(&expiry, &head.metadata))
    }

    async fn expiry_of(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        head: &Head<TableMetadata>,
        retention: ExpiryRequest,
    ) -> Result<Expiry> {
        if head.metadata.format_version > FORMAT_VERSION_ADOPTED {
            return Err(Error::Invalid(
                "Cannot expire snapshots: the server cannot read the manifests of format version \
                 4, so it could not delete the files. Expire the snapshots with a client"
                    .to_owned(),
            ));
        }
        let store = self.core.store().latest();
        let inherited =
            self.core.inherited_maintenance(&store, &cx.warehouse, &ident.namespace).await?;
        Ok(Expiry::of(&head.metadata, retention, &inherited, self.core.now_ms())?)
    }

    /// Expires snapshots, and creates the job that deletes their files.
    async fn expire_once(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        retention: ExpiryRequest,
    ) -> Result<ExpiredSnapshots> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            // Rejects callers without permission before they wait for the lane.
            let _permit = self.permit_expiry(cx, ident).await?;
            let id = self.table_id(cx, ident).await?;
            let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
            let permit = self.permit_expiry(cx, ident).await?;
            let (now_id, head) = self.current_table(cx, ident).await?;
            if now_id != id {
                // Another table has got the name since then.
                continue;
            }
            // In the lane, no commit can make an expired snapshot current.
            let expiry = self.expiry_of(cx, ident, &head, retention).await?;
            if let Some(expired) =
                self.write_expiry(cx, (&permit, ident), lanes, &head, expiry).await?
            {
                return Ok(expired);
            }
        }
        Err(too_many_conflicts(TabularKind::Table, ident))
    }

    /// Commits an expiry. Returns `None` if another request has changed the table.
    async fn write_expiry(
        &self,
        cx: &RequestContext,
        (permit, ident): (&Permit<Purge>, &TabularIdent),
        lanes: LaneGuard,
        head: &Head<TableMetadata>,
        expiry: Expiry,
    ) -> Result<Option<ExpiredSnapshots>> {
        let updates = &expiry.updates(&head.metadata);
        let mut builder = CommitBuilder::new(self, &cx.warehouse, head);
        builder.apply_updates(&[], updates).await?;
        let (_, new) = builder.finish();
        let new = new.as_ref();
        let deletes = new.is_some() && self.core.environment.deletes_files();
        let job = deletes.then(|| self.core.ids().ordered());
        let expired = &ExpiredSnapshots { job, ..ExpiredSnapshots::of(&expiry, &head.metadata) };
        let (files, created_by) = (&expiry.files, cx.operation.principal.id());
        let versions = new.iter().map(|new| new.file()).collect();
        let write = Write { action: ACTION, permit, lanes, versions };
        let committed = self.core.pipeline().commit_if_current(write, |t| async move {
            if let Some(new) = new {
                if !self.write_version(&t, ident, new).await? {
                    return Ok(None);
                }
                if let Some(job) = job {
                    let table = table_of(&new.record, Some((&cx.warehouse, ident)));
                    let (warehouse, created_by) = (cx.warehouse.id, Some(created_by.to_owned()));
                    self.jobs.put_job(&t, job, warehouse, work_of(files), table, created_by)?;
                }
            }
            let summary = TableMetadata::summarize(updates);
            let entry = new.map(|new: &NewVersion| new.entry(ACTION, ident, permit, summary));
            let response = Body(expired.clone());
            Ok(Some(((), self.core.pipeline().records(&cx.operation, entry, &response)?)))
        });
        Ok(committed.await?.map(|_| expired.clone()))
    }

    async fn permit_expiry(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<Permit<Purge>> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        let store = self.core.store().latest();
        self.core.access.permit_tabular(&store, &cx.operation, target).await
    }

    /// Returns the id and the current version of a table.
    pub(super) async fn current_table(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<(Uuid, Head<TableMetadata>)> {
        let id = self.table_id(cx, ident).await?;
        let head = self.core.environment.head(&self.core.store().latest(), id).await?;
        Ok((id, head.ok_or_else(|| Error::no_such(TabularKind::Table, ident))?))
    }

    async fn table_id(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<Uuid> {
        let (store, kind) = (self.core.store().latest(), TabularKind::Table);
        let id = lookup::tabular_id(&store, cx.warehouse.id, kind, ident).await?;
        id.ok_or_else(|| Error::no_such(kind, ident))
    }
}

/// Returns the work of the job that deletes these files.
fn work_of(files: &SnapshotFiles) -> JobWork {
    let SnapshotFiles { manifest_lists, manifests, statistics } = files.clone();
    JobWork::Expired { manifest_lists, manifests, statistics }
}
