//! Writes changes of warehouses. After a failure, reconciles the served warehouses with the store.

use std::time::Duration;

use uuid::Uuid;

use super::change::EvaluatedChange;
use super::listing::WarehouseInfo;
use super::served_warehouses::Entry;
use crate::changed::changed_warehouse;
use crate::detached::detached;
use crate::namespaces::contents_of;
use crate::pipeline::Write;
use crate::pipeline::records::Entry as Logged;
use crate::pipeline::response::Body;
use crate::protections::check_unprotected;
use crate::serial_lock::SerialGuard;
use crate::tabular::dropped::retention::delete_dropped_namespace;
use crate::warehouses::Warehouses;
use crate::{Error, Operation, Result};
use slateberg_base::progress::Progress;
use slateberg_base::retry::Backoff;
use slateberg_objects::stores::Roots;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{AbandonedKey, DroppedKey, DroppedNamespaceKey, JobKey, WarehouseKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::WarehouseRecord;
use slateberg_store::txn::Transaction;

const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

impl Warehouses {
    /// Writes a change in a background task. If this takes longer than the deadline, the caller
    /// gets an unknown outcome. The task then holds the lock until the outcome is known.
    pub(super) async fn execute_warehouse_change(
        &self,
        turn: SerialGuard,
        operation: Operation,
        evaluated: EvaluatedChange,
        stores: Option<Roots>,
    ) -> Result<Option<WarehouseInfo>> {
        let warehouses = self.clone();
        let change = async move {
            let _turn = turn;
            match warehouses.write_warehouse(&operation, &evaluated).await {
                Ok(()) => {}
                // The transaction was rejected and has written nothing.
                Err(refused) if refused.is_final() => return Err(refused),
                Err(error) => warehouses.reconcile_warehouse(&evaluated, error).await?,
            }
            warehouses.serve_warehouse(evaluated, stores).await
        };
        detached(self.core.settings().commit_deadline(), "deadline has elapsed", change).await
    }

    async fn write_warehouse(
        &self,
        operation: &Operation,
        evaluated: &EvaluatedChange,
    ) -> Result<()> {
        let EvaluatedChange { permit, action, name, before, after, .. } = evaluated;
        let after = after.as_ref().map(|entry| &*entry.record);
        let info = evaluated.visible_info(&self.core.warehouses());
        let response = &info.map(Body);
        let write = Write::of_records(*action, permit);
        let written = self.core.pipeline().commit(write, |t| async move {
            let key = WarehouseKey(name.clone());
            if t.get(&key).await? != *before {
                return Err(Error::internal(format!(
                    "the record of warehouse {name} differs from the served warehouse"
                )));
            }
            match after {
                Some(after) if before.as_ref() == Some(after) => {}
                Some(after) => t.put(&key, after)?,
                None => {
                    if let Some(before) = before {
                        check_unprotected(&*t, before.id, "delete").await?;
                        self.require_empty_warehouse(&t, name, before.id).await?;
                        self.delete_dropped_namespaces(&t, before.id).await?;
                    }
                    t.delete(&key)?;
                }
            }
            let entry = (before.as_ref() != after).then(|| entry(evaluated));
            Ok(((), self.core.pipeline().records(operation, entry, response)?))
        });
        written.await
    }

    /// Rejects the deletion of a warehouse that is not empty. This runs in the serializable
    /// transaction of the deletion. The creation of a namespace reads the record of the warehouse,
    /// so a concurrent creation conflicts with the deletion.
    ///
    /// Dropped tables and jobs are scanned outside of the transaction. Otherwise, the transaction
    /// would conflict with changes of dropped tables and jobs in all other warehouses. The scan
    /// outside is safe, because the transaction has begun already and requires an empty warehouse.
    /// An empty warehouse gets no new dropped tables. It gets a new job only if the job replaces a
    /// dropped table.
    async fn require_empty_warehouse(&self, t: &Transaction, name: &str, id: Uuid) -> Result<()> {
        let mut contents = contents_of(t, id).await?;
        // Dropped tables are scanned before the jobs, because the end of a retention replaces a
        // dropped table by a job.
        if contents.is_none() {
            let range = KeyRange::all(KeySpace::Dropped);
            let dropped = self.core.store().latest().scan::<DroppedKey>(&range, None).await?;
            let own = dropped.iter().any(|(_, dropped)| dropped.record.warehouse == id);
            contents = own.then_some("dropped tables or views that can be restored");
        }
        if contents.is_none() {
            let range = KeyRange::all(KeySpace::Jobs);
            let jobs = self.core.store().latest().scan::<JobKey>(&range, None).await?;
            let mut own = jobs.iter().any(|(_, job)| job.warehouse == id);
            if !own {
                let range = KeyRange::all(KeySpace::Abandoned);
                let left = self.core.store().latest().scan::<AbandonedKey>(&range, None).await?;
                own = left.iter().any(|(_, files)| files.warehouse == id);
            }
            contents = own.then_some("files that are still to be deleted");
        }
        match contents {
            None => Ok(()),
            Some(contents) => {
                Err(Error::WarehouseNotEmpty { warehouse: name.to_owned(), contents })
            }
        }
    }

    /// Deletes the records of the dropped namespaces of a warehouse that is deleted. They are
    /// scanned outside of the transaction, like dropped tables.
    async fn delete_dropped_namespaces(&self, t: &Transaction, warehouse: Uuid) -> Result<()> {
        let range = KeyRange::all(KeySpace::DroppedNamespaces);
        let dropped = self.core.store().latest().scan::<DroppedNamespaceKey>(&range, None).await?;
        for (key, dropped) in dropped {
            if dropped.record.warehouse == warehouse {
                delete_dropped_namespace(t, key.0).await?;
            }
        }
        Ok(())
    }

    /// After a failed write of a change, determines whether the store contains the change. Returns
    /// the error of the write if it does not. Retries until the store can be read or is closed. If
    /// the store is closed, the server stops, and reads the store at its next start.
    async fn reconcile_warehouse(&self, evaluated: &EvaluatedChange, error: Error) -> Result<()> {
        let after = evaluated.after.as_ref().map(|entry| &*entry.record);
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            if self.core.store().check_open().is_err() {
                return Err(error);
            }
            match self.stored_warehouse(&evaluated.name).await {
                Ok(found) if found == evaluated.before => return Err(error),
                Ok(found) if found.as_ref() == after => return Ok(()),
                Ok(_) => {
                    return Err(Error::internal(format!(
                        "the record of warehouse {} was written by another server",
                        evaluated.name
                    )));
                }
                Err(unread) => {
                    tracing::warn!(?unread, "cannot read the record of a warehouse: retrying");
                }
            }
            backoff.wait().await;
        }
    }

    /// Waits until all accepted changes are durable, and returns the record of a warehouse.
    async fn stored_warehouse(&self, name: &str) -> Result<Option<WarehouseRecord>> {
        self.core.store().wait_durable().await?;
        Ok(self.core.store().durable().get(&WarehouseKey(name.to_owned())).await?)
    }

    /// Serves the warehouse after the change. If the warehouse existed but was not open, some of
    /// its metadata files may be missing. Requests to the warehouse return 503 until these files
    /// are written.
    async fn serve_warehouse(
        &self,
        evaluated: EvaluatedChange,
        stores: Option<Roots>,
    ) -> Result<Option<WarehouseInfo>> {
        let served = self.core.warehouses();
        let summary = evaluated.visible_info(&served);
        let EvaluatedChange { name, action, before, after, .. } = evaluated;
        let was_open = served.find(Some(&name)).is_ok_and(|entry| entry.shut.is_none());
        let all = &self.core.environment.warehouses;
        match (after, stores) {
            (None, _) => all.serve(served.without(&name)),
            (Some(entry), None) => all.serve(served.with_settings(entry)),
            (Some(entry), Some(roots)) if before.is_none() || was_open => {
                all.serve(served.with(entry, Ok(roots)));
            }
            (Some(entry), Some(roots)) => {
                let with_stores = served.with(entry.clone(), Ok(roots));
                let shut = Some("metadata files are being written".into());
                let not_yet = with_stores.with_settings(Entry { shut, ..entry.clone() });
                all.serve(not_yet);
                self.core
                    .pipeline()
                    .finish_publications(
                        Some(entry.warehouse.id),
                        Duration::MAX,
                        &Progress::default(),
                    )
                    .await?;
                all.serve(with_stores);
            }
        }
        tracing::info!(warehouse = name, action = action.as_str(), "warehouses changed");
        Ok(summary)
    }
}

/// Returns the entry of the change log for a change of a warehouse.
fn entry(evaluated: &EvaluatedChange) -> Logged<'_> {
    let EvaluatedChange { permit, action, name, before, after, .. } = evaluated;
    let after = after.as_ref().map(|entry| &*entry.record);
    let id = after.or(before.as_ref()).map_or(Uuid::nil(), |record| record.id);
    Logged {
        action: *action,
        warehouse: id,
        subject: id,
        name,
        versions: (version(before.as_ref()), version(after)),
        decision: permit.decision(),
        resource: Some(changed_warehouse(name)),
    }
}

fn version(record: Option<&WarehouseRecord>) -> Option<u64> {
    record?.definition.as_ref().map(|definition| definition.version)
}
