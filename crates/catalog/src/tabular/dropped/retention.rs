//! Ends the retention of dropped namespaces, tables and views.

use std::collections::HashMap;

use uuid::Uuid;

use super::{BATCH, no_such_dropped};
use crate::changed::{changed_namespace, removed};
use crate::jobs::table_of;
use crate::location_index::put_index_entries;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::tabular::Tabulars;
use crate::{Error, Operation, Result};
use slateberg_authz::action::PurgeNow;
use slateberg_authz::notation;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::boxed;
use slateberg_store::bulk_read::Pages;
use slateberg_store::dropped::{DroppedNamespace, DroppedTabular};
use slateberg_store::jobs::JobWork;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{DroppedFunctionKey, DroppedKey, DroppedNamespaceKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangeAction;
use slateberg_store::txn::Transaction;

/// Number of dropped tables and views whose retention one transaction ends.
const EXPIRED_MAX: usize = 50;

/// A dropped namespace, table or view.
#[derive(Clone, Copy)]
enum DroppedId {
    Namespace(DroppedNamespaceKey),
    Tabular(DroppedKey),
}

/// A dropped resource whose retention may have ended.
struct RetainedDrop {
    /// Time of the drop.
    at_ms: i64,
    /// Id of the drop of a namespace.
    with: Option<Uuid>,
    id: DroppedId,
}

impl Tabulars {
    /// Deletes a dropped namespace, table or view before its retention ends. With `purge`, a
    /// background job deletes the files of the table or view. The tables and views that were
    /// dropped with a namespace stay until the end of their own retention.
    #[boxed]
    pub async fn delete_dropped(&self, operation: &Operation, id: &str, purge: bool) -> Result<()> {
        let id = id.to_owned();
        let delete = move |tabulars: Self, operation: Operation| async move {
            tabulars.delete_dropped_once(&operation, &id, purge).await
        };
        self.core.mutate(self, operation, delete).await
    }

    async fn delete_dropped_once(
        &self,
        operation: &Operation,
        name: &str,
        purge: bool,
    ) -> Result<()> {
        let missing = || no_such_dropped(name);
        let id = Uuid::try_parse(name).map_err(|_| missing())?;
        let store = self.core.store().latest();
        let dropped = store.get(&DroppedKey(id)).await?;
        if dropped.is_none()
            && let Some(namespace) = store.get(&DroppedNamespaceKey(id)).await?
        {
            return self.delete_dropped_namespace(operation, namespace, (name, purge)).await;
        }
        let found = self.described_dropped(dropped.ok_or_else(missing)?).await?;
        let found = &found.ok_or_else(missing)?;
        let permit: &Permit<PurgeNow> = &self.permit_dropped(operation, &found.resource, name)?;
        if purge {
            let advice = "delete it without purge";
            self.core.environment.check_deletion("Cannot purge", advice)?;
        }
        let action = if purge { ChangeAction::PurgeDropped } else { ChangeAction::DeleteDropped };
        let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
        let write = Write { action, permit, lanes, versions: Vec::new() };
        let deleted = self.core.pipeline().commit(write, |t| async move {
            let dropped = t.get(&DroppedKey(id)).await?.ok_or_else(missing)?;
            let purged_by = purge.then(|| operation.principal.id());
            self.end_retention(&t, &dropped, purged_by).await?;
            let resource = notation::resource_text(&found.resource);
            let entry = Entry {
                action,
                warehouse: found.warehouse.id,
                subject: id,
                name: &resource,
                versions: (Some(dropped.record.version), None),
                decision: permit.decision(),
                resource: Some(removed(&dropped.record, &dropped.ident().namespace)),
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
        });
        deleted.await?;
        self.jobs.announce_jobs();
        Ok(())
    }

    /// Deletes the records of a dropped namespace and of the functions that were dropped with it.
    async fn delete_dropped_namespace(
        &self,
        operation: &Operation,
        dropped: DroppedNamespace,
        (name, purge): (&str, bool),
    ) -> Result<()> {
        let missing = || no_such_dropped(name);
        let id = dropped.record.id;
        let warehouse = self.core.warehouses().by_id(dropped.record.warehouse);
        let warehouse = warehouse.ok_or_else(missing)?;
        let resource = self.dropped_namespace_resource(&warehouse, &dropped).await?;
        let permit: &Permit<PurgeNow> = &self.permit_dropped(operation, &resource, name)?;
        if purge {
            return Err(Error::Invalid(
                "Cannot purge a namespace: it has no files. Delete it without purge".to_owned(),
            ));
        }
        let (ident, resource) = (&dropped.ident(), &notation::resource_text(&resource));
        let action = ChangeAction::DeleteDropped;
        let write = Write::of_records(action, permit);
        let deleted = self.core.pipeline().commit(write, |t| async move {
            let dropped = t.get(&DroppedNamespaceKey(id)).await?.ok_or_else(missing)?;
            delete_dropped_namespace(&t, id).await?;
            let entry = Entry {
                action,
                warehouse: dropped.record.warehouse,
                subject: id,
                name: resource,
                versions: (Some(dropped.record.version), None),
                decision: permit.decision(),
                resource: Some(changed_namespace(ident)),
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
        });
        deleted.await
    }

    /// Deletes the records of a dropped table or view. With `purged_by`, creates a job that deletes
    /// the files and then the metadata. `purged_by` is the principal that creates this job.
    async fn end_retention(
        &self,
        t: &Transaction,
        dropped: &DroppedTabular,
        purged_by: Option<&str>,
    ) -> Result<()> {
        let record = &dropped.record;
        t.delete(&DroppedKey(record.id))?;
        put_index_entries(t, Some(record), None)?;
        let Some(author) = purged_by else { return Ok(t.delete_document(record.id).await?) };
        let (id, metadata_location) = (record.id, record.metadata_location.clone());
        let work = JobWork::ReachableFrom { id, metadata_location };
        let warehouse = self.core.warehouses().by_id(record.warehouse);
        let ident = dropped.ident();
        let table = table_of(record, warehouse.as_deref().map(|warehouse| (warehouse, &ident)));
        let job = self.core.ids().ordered();
        self.jobs.put_job(t, job, record.warehouse, work, table, Some(author.to_owned()))
    }

    /// Removes the dropped namespaces, tables and views whose retention has ended, and the oldest
    /// ones of a warehouse with too many. Returns their number. Each transaction reads the records
    /// again, because an undrop may have removed a record. The namespaces are removed first, so
    /// that none of them is restored with only a part of its tables.
    pub(crate) async fn expire_dropped(&self) -> Result<usize> {
        let (mut namespaces, mut tabulars) = (Vec::new(), Vec::new());
        for ended in self.ended_retentions().await? {
            match ended {
                DroppedId::Namespace(key) => namespaces.push(key),
                DroppedId::Tabular(key) => tabulars.push(key),
            }
        }
        let mut removed = 0;
        for keys in namespaces.chunks(EXPIRED_MAX) {
            removed += self.remove_expired_namespaces(keys).await?;
        }
        for keys in tabulars.chunks(EXPIRED_MAX) {
            removed += self.remove_expired(keys).await?;
        }
        Ok(removed)
    }

    /// Returns everything whose retention has ended.
    async fn ended_retentions(&self) -> Result<Vec<DroppedId>> {
        let store = self.core.store().durable();
        let mut by_warehouse: HashMap<Uuid, Vec<RetainedDrop>> = HashMap::new();
        let mut pages =
            Pages::<DroppedNamespaceKey>::of(KeySpace::DroppedNamespaces, BATCH).cached();
        while let Some(batch) = pages.next(&store).await? {
            for (key, dropped) in batch {
                by_warehouse.entry(dropped.record.warehouse).or_default().push(RetainedDrop {
                    at_ms: dropped.dropped_ms,
                    with: Some(dropped.dropped_with),
                    id: DroppedId::Namespace(key),
                });
            }
        }
        let mut pages = Pages::<DroppedKey>::of(KeySpace::Dropped, BATCH).cached();
        while let Some(batch) = pages.next(&store).await? {
            for (key, dropped) in batch {
                by_warehouse.entry(dropped.record.warehouse).or_default().push(RetainedDrop {
                    at_ms: dropped.dropped_ms,
                    with: dropped.dropped_with,
                    id: DroppedId::Tabular(key),
                });
            }
        }
        let (now_ms, kept_max) = (self.core.now_ms(), self.core.settings().dropped_kept_max);
        let mut ended = Vec::new();
        for (warehouse, mut drops) in by_warehouse {
            let until_ms = now_ms.saturating_sub(self.core.dropped_kept_ms(warehouse));
            drops.sort_by_key(|it| (it.at_ms, it.with));
            let count = ended_count(&drops, until_ms, kept_max);
            ended.extend(drops.into_iter().take(count).map(|it| it.id));
        }
        Ok(ended)
    }

    async fn remove_expired_namespaces(&self, keys: &[DroppedNamespaceKey]) -> Result<usize> {
        let permit = Permit::for_task(Task::Expiry);
        let removal = self.core.store().transact("expire_dropped", &permit, |t| async move {
            let mut removed = 0;
            for key in keys {
                if t.get(key).await?.is_some() {
                    delete_dropped_namespace(&t, key.0).await?;
                    removed += 1;
                }
            }
            Ok::<_, Error>(removed)
        });
        let (removed, accepted) = removal.await?;
        accepted.durable().await?;
        Ok(removed)
    }

    async fn remove_expired(&self, keys: &[DroppedKey]) -> Result<usize> {
        // A clone deletes no files, because its parent may need them.
        let may_purge = self.core.environment.deletes_files();
        let permit = Permit::for_task(Task::Expiry);
        let removal = self.core.store().transact("expire_dropped", &permit, |t| async move {
            let mut removed = 0;
            for key in keys {
                let Some(dropped) = t.get(key).await? else { continue };
                let purged_by = (dropped.purge && may_purge).then_some(dropped.dropped_by.as_str());
                // The removal of its metadata would wait for the sync, and with it all other tables.
                if purged_by.is_none() && self.core.store().has_unsynced_files(key.0) {
                    continue;
                }
                self.end_retention(&t, &dropped, purged_by).await?;
                removed += 1;
            }
            Ok::<_, Error>(removed)
        });
        let (removed, accepted) = removal.await?;
        accepted.durable().await?;
        self.jobs.announce_jobs();
        Ok(removed)
    }
}

/// Returns the number of drops whose retention has ended, from drops in the order of their times.
/// These are the drops until `until_ms`, and the oldest ones if there are more than `kept_max`. The
/// contents of a namespace are retained or removed as a whole.
fn ended_count(drops: &[RetainedDrop], until_ms: i64, kept_max: usize) -> usize {
    let expired = drops.partition_point(|it| it.at_ms <= until_ms);
    let mut count = expired.max(drops.len().saturating_sub(kept_max));
    while count > expired
        && let (Some(last), Some(next)) = (drops.get(count - 1), drops.get(count))
        && last.with.is_some()
        && last.with == next.with
    {
        count += 1;
    }
    count
}

/// Deletes the records of a dropped namespace and of the functions that were dropped with it.
pub(crate) async fn delete_dropped_namespace(t: &Transaction, id: Uuid) -> Result<()> {
    t.delete(&DroppedNamespaceKey(id))?;
    let below = KeyRange::below(KeySpace::DroppedFunctions, id);
    for (key, _) in t.scan::<DroppedFunctionKey>(&below, None).await? {
        t.delete(&key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_at(at_ms: i64, with: Option<u128>) -> RetainedDrop {
        let id = DroppedId::Tabular(DroppedKey(Uuid::nil()));
        RetainedDrop { at_ms, with: with.map(Uuid::from_u128), id }
    }

    #[test]
    fn oldest_drops_end_beyond_the_maximum_and_groups_end_as_a_whole() {
        let drops =
            [drop_at(1, None), drop_at(2, Some(1)), drop_at(2, Some(1)), drop_at(3, Some(2))];
        for (kept_max, ended) in [(4, 0), (3, 1), (2, 3), (1, 3), (0, 4)] {
            assert_eq!(ended_count(&drops, 0, kept_max), ended, "{kept_max}");
        }
        assert_eq!(ended_count(&drops, 2, 4), 3);
        assert_eq!(ended_count(&[], 2, 0), 0);
    }
}
