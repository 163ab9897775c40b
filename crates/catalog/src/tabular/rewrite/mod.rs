//! Rewrite of manifests: merges the small data manifests of a table's current snapshot.
//!
//! Each append adds a manifest, and a scan reads all of them. A rewrite writes the entries of many
//! small manifests to a few larger ones ([`merge`]). It then commits a snapshot with the operation
//! `replace` ([`snapshot`]), like a client that has rewritten manifests. The files of the table stay
//! the same.
//!
//! The commit goes through the lane of the table like any other. If appends have been committed
//! since the rewrite began, it is rebased onto them ([`super::append`]). The server needs no
//! permission of the table for this, because the rewrite changes no rows.

pub(super) mod current;
mod merge;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

pub use self::current::RewrittenManifests;
use self::current::{CurrentManifests, rejected, unreadable};
use self::merge::{ManifestSelection, MergedManifests};
use super::append::lists::is_within;
use super::change::{Change, CommitRequest, CommittedRewrite};
use super::commit::too_many_conflicts;
use super::head::Head;
use super::target::Target;
use crate::pipeline::Write;
use crate::pipeline::response::Body;
use crate::tabular::Tabulars;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::Commit;
use slateberg_authz::commit_kind::CommitKind;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::snapshot::MAIN_BRANCH;
use slateberg_model::table::{FORMAT_VERSION_ADOPTED, FORMAT_VERSION_ROW_LINEAGE, TableMetadata};
use slateberg_objects as objects;
use slateberg_objects::manifest_list::ManifestList;
use slateberg_store::keys::PublicationKey;
use slateberg_store::records::ChangeAction;

/// Maximum number of times that a rewrite is repeated because the table has changed.
const ATTEMPTS_MAX: usize = 5;

/// A request to rewrite the manifests of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestRewrite {
    /// The table, as `table:prod/sales/orders`.
    pub resource: String,
    /// Whether the request only returns what a rewrite would do.
    pub dry_run: bool,
}

impl Tabulars {
    /// Merges the small data manifests of a table's current snapshot. The caller needs the
    /// permission to commit data to the table.
    #[boxed]
    pub async fn rewrite_manifests(
        &self,
        operation: &Operation,
        request: ManifestRewrite,
    ) -> Result<RewrittenManifests> {
        let of_views = "Views have no manifests";
        let (cx, ident) = self.core.table_named(operation, &request.resource, of_views)?;
        self.core.environment.check_findable(TabularKind::Table, &ident)?;
        if request.dry_run {
            return self.expected_rewrite(&cx, &ident).await;
        }
        self.rewrite_table(&cx, ident).await
    }

    /// Rewrites the manifests of a table as one operation: it continues if the caller is dropped.
    pub(crate) async fn rewrite_table(
        &self,
        cx: &RequestContext,
        ident: TabularIdent,
    ) -> Result<RewrittenManifests> {
        let rewrite = move |tabulars: Self, cx: RequestContext| async move {
            tabulars.rewrite_once(&cx, &ident).await.map(Body)
        };
        let action = ChangeAction::RewriteManifests;
        let Body(rewritten) = self.core.commit(action, self, cx, rewrite).await?;
        Ok(rewritten)
    }

    /// Returns what a rewrite would do now.
    async fn expected_rewrite(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<RewrittenManifests> {
        let _permit = self.permit_rewrite(cx, ident).await?;
        let (_, head) = self.current_table(cx, ident).await?;
        self.possible_rewrite(&head).await
    }

    /// Returns what a rewrite of this state of a table would do.
    pub(crate) async fn possible_rewrite(
        &self,
        head: &Head<TableMetadata>,
    ) -> Result<RewrittenManifests> {
        let Some(current) = self.current_manifests(head).await? else {
            return Ok(RewrittenManifests::default());
        };
        let selection = ManifestSelection::of(&head.metadata, &current.manifests);
        Ok(selection.expected(&current.manifests))
    }

    /// Rewrites the manifests of a table. Begins again if the table has changed so that the rewrite
    /// cannot be rebased.
    async fn rewrite_once(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<RewrittenManifests> {
        let busy = |_| Error::unavailable("Too many rewrites run already. Retry later", "rewrites");
        let _running = self.rewrites.try_acquire().map_err(busy)?;
        for _ in 0..ATTEMPTS_MAX {
            let permit = self.permit_rewrite(cx, ident).await?;
            let (id, head) = self.current_table(cx, ident).await?;
            match self.attempt_rewrite(cx, (id, ident), &permit, &head).await {
                Ok(Some(rewritten)) => return Ok(rewritten),
                Ok(None) => {}
                Err(error) => {
                    // A rejection is final only if the table is still the same. Otherwise, the
                    // snapshot may have expired, and its files may be deleted.
                    let (now_id, now) = self.current_table(cx, ident).await?;
                    if (now_id, now.record.version) == (id, head.record.version) {
                        return Err(error);
                    }
                }
            }
        }
        Err(too_many_conflicts(TabularKind::Table, ident))
    }

    /// Rewrites the manifests of this state of a table. Returns `None` if the rewrite must begin
    /// again.
    async fn attempt_rewrite(
        &self,
        cx: &RequestContext,
        (id, ident): (Uuid, &TabularIdent),
        permit: &Permit<Commit>,
        head: &Head<TableMetadata>,
    ) -> Result<Option<RewrittenManifests>> {
        let Some(current) = self.current_manifests(head).await? else {
            return self.nothing_to_rewrite(cx, permit, 0).await.map(Some);
        };
        let selection = ManifestSelection::of(&head.metadata, &current.manifests);
        let merged = self.merge_manifests(&current, selection).await?;
        if merged.new.is_empty() {
            return self.nothing_to_rewrite(cx, permit, current.manifests.len()).await.map(Some);
        }
        self.commit_rewrite(cx, (id, ident), &current, merged).await
    }

    /// Commits new manifests, which exist already. Returns `None` if the rewrite must begin again.
    async fn commit_rewrite(
        &self,
        cx: &RequestContext,
        (id, ident): (Uuid, &TabularIdent),
        current: &CurrentManifests<'_>,
        merged: MergedManifests,
    ) -> Result<Option<RewrittenManifests>> {
        let record = &current.head.record;
        let new = snapshot::rewritten(self, current, &merged)?;
        let list = self.jobs.announce_list(record, new.location.clone()).await?;
        let (objects, warehouse) = (self.core.objects(), record.warehouse);
        objects::manifest_list::create(&objects, warehouse, &new.location, &new.content).await?;
        let records = merged.announced.iter().chain([&list]).filter_map(|new| new.record);
        let response = new.response;
        let rewrite = CommittedRewrite { response: response.clone(), records: records.collect() };
        let change = Change::<TableMetadata> {
            ident: ident.clone(),
            requirements: new.requirements,
            updates: new.updates,
            blind_append: false,
        };
        let request = CommitRequest::Rewrite(Arc::new(rewrite));
        let committed = self.commit_in_group(cx, id, change, request).await?;
        Ok(committed.map(|_| response))
    }

    /// Records the response of a request that changes nothing.
    async fn nothing_to_rewrite(
        &self,
        cx: &RequestContext,
        permit: &Permit<Commit>,
        kept: usize,
    ) -> Result<RewrittenManifests> {
        let response = &RewrittenManifests::nothing(kept);
        let write = Write::of_records(ChangeAction::RewriteManifests, permit);
        let pipeline = self.core.pipeline();
        let recorded = pipeline.commit(write, |_| async move {
            Ok(((), pipeline.records(&cx.operation, None, &Body(response.clone()))?))
        });
        recorded.await?;
        Ok(response.clone())
    }

    async fn permit_rewrite(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
    ) -> Result<Permit<Commit>> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        let store = self.core.store().latest();
        let kinds = BTreeSet::from([CommitKind::Data]);
        self.core.access.permit_commit(&store, &cx.operation, target, &kinds).await
    }

    /// Returns the manifests of the current snapshot. `None` if there is no snapshot.
    async fn current_manifests<'a>(
        &self,
        head: &'a Head<TableMetadata>,
    ) -> Result<Option<CurrentManifests<'a>>> {
        let table = &head.metadata;
        if table.properties.contains_key("encryption.key-id") {
            return Err(rejected("the table is encrypted"));
        }
        if table.format_version > FORMAT_VERSION_ADOPTED {
            return Err(rejected("the server cannot read the manifests of format version 4"));
        }
        let Some(main) = table.refs.get(MAIN_BRANCH) else { return Ok(None) };
        let Some(snapshot) = table.snapshot(main.snapshot_id) else { return Ok(None) };
        if snapshot.key_id().is_some() {
            return Err(rejected("the current snapshot is encrypted"));
        }
        // The manifest list of a rebased snapshot may not be written yet.
        let version = PublicationKey { id: head.record.id, version: head.record.version };
        let deadline = self.core.settings().commit_deadline();
        self.core.pipeline().pending.wait(version, deadline).await?;
        let location = snapshot.manifest_list();
        let location = location.ok_or_else(|| rejected("the snapshot has no manifest list"))?;
        let manifests = self.read_list(head, &location).await?.entries;
        for manifest in &manifests {
            check_own(head, &manifest.path)?;
            if manifest.key_metadata.is_some() {
                return Err(rejected(&format!("the manifest {} is encrypted", manifest.path)));
            }
            if table.format_version > 1 && !manifest.has_counts() {
                return Err(rejected(
                    "the manifest list does not count the files of all manifests",
                ));
            }
            let needs_row_ids = table.format_version >= FORMAT_VERSION_ROW_LINEAGE;
            if needs_row_ids && manifest.is_data() && manifest.first_row_id.is_none() {
                return Err(rejected(
                    "some files have no row ids yet: the next append of a client assigns them",
                ));
            }
        }
        Ok(Some(CurrentManifests { head, snapshot, manifests }))
    }

    async fn read_list(&self, head: &Head<TableMetadata>, location: &str) -> Result<ManifestList> {
        check_own(head, location)?;
        let read = self.core.objects().read(head.record.warehouse, location).await;
        let content = read.map_err(unreadable)?;
        let name = location.to_owned();
        let parsing = tokio::task::spawn_blocking(move || ManifestList::parse(&name, &content));
        parsing.await.map_err(Error::internal)?.map_err(unreadable)
    }
}

/// Rejects a file outside of the table's locations. The server reads files with its own credentials,
/// so a commit must not make the server copy the content of other tables.
fn check_own(head: &Head<TableMetadata>, file: &str) -> Result<()> {
    if is_within(&head.record, file) {
        return Ok(());
    }
    Err(rejected(&format!("{} is outside of the table's own locations", brief(file))))
}
