//! Signatures for requests to the object store. A principal with a row filter gets them only for
//! files that the filter permits.

use uuid::Uuid;

use super::Planning;
use super::readable_rows::ReadableRows;
use crate::{Error, RequestContext, Result};
use slateberg_base::boxed;
use slateberg_model::ident::TabularIdent;
use slateberg_model::members::brief;
use slateberg_model::snapshot::Snapshot;
use slateberg_model::table::TableMetadata;
use slateberg_objects::sign::Signed;
use slateberg_objects::sign::request::SignRequest;

/// Maximum number of snapshots in which a file is searched.
const SNAPSHOTS_MAX: usize = 10;

impl Planning {
    /// Signs a request to the object store, if the request is for files of the table and the caller
    /// has the necessary privileges. A caller that may read only permitted files gets a signature
    /// only for a request that reads one of them.
    #[boxed]
    pub async fn sign(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        staged: Option<Uuid>,
        request: &SignRequest,
    ) -> Result<Signed> {
        let signable = self.delegations.signable(cx, ident, staged, request).await?;
        if signable.permitted_only {
            let is_permitted = match signable.request.read_object() {
                Some(object) => self.permits(cx, ident, object).await?,
                None => false,
            };
            if !is_permitted {
                return Err(Error::Forbidden(format!(
                    "Not allowed: the files of {}: the principal may only read data files and \
                     delete files in which the row filter permits every row",
                    brief(ident)
                )));
            }
        }
        self.delegations.sign(cx, signable).await
    }

    /// Whether the row filter of the caller permits a file in one of the newest snapshots. `object`
    /// is its bucket and key.
    async fn permits(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        object: &str,
    ) -> Result<bool> {
        let table = self.table(cx, ident).await?;
        let ReadableRows::InPermittedFiles(row_filter) = &table.rows else {
            // The policies have changed since the privileges were evaluated.
            return Ok(false);
        };
        let mut slot = None;
        for snapshot in newest_snapshots(&table.metadata) {
            // Most requests need no slot, because the files of the snapshot are cached.
            if slot.is_none() && !self.has_permitted(&table, row_filter, snapshot)? {
                slot = Some(self.shared.compute.admit(&cx.operation).await?);
            }
            if self.permitted_files(&table, row_filter, snapshot).await?.contains(object) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the current snapshot, those of the branches and tags, and then the newest others.
fn newest_snapshots(table: &TableMetadata) -> Vec<&Snapshot> {
    let current = table.current_snapshot_id.into_iter();
    let of_refs = table.refs.values().map(|reference| reference.snapshot_id);
    let mut found: Vec<&Snapshot> = Vec::new();
    let named = current.chain(of_refs).filter_map(|id| table.snapshot(id));
    for snapshot in named.chain(table.snapshots.iter().rev()) {
        let is_new = found.iter().all(|it| it.snapshot_id != snapshot.snapshot_id);
        if found.len() < SNAPSHOTS_MAX && is_new {
            found.push(snapshot);
        }
    }
    found
}
