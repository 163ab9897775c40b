//! Committing to tables: one, or several as one.
//!
//! A commit is judged against the accepted state, then written in a serializable transaction that finds
//! that state unchanged. Its lane makes that certain for existing tables; for new ones the transaction
//! itself decides between two who want the same name. Those that wait for one table go together
//! ([`group`](super::group)).

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::head::Head;
use super::judging::Judging;
use crate::authz::action::Commit;
use crate::authz::permit::Permit;
use crate::catalog::mutation::Answer;
use crate::catalog::publications::{Landing, MetadataFile};
use crate::catalog::tabulars::{NewRecord, NewTabular, NewVersion, TabularState, metadata_file};
use crate::catalog::version_cache::Cached;
use crate::catalog::{Catalog, Error, Operation, Result, lookup};
use crate::model::commit::{CommitContext, apply};
use crate::model::ident::{TabularIdent, TabularKind};
use crate::model::members::brief;
use crate::model::requirement::TableRequirement;
use crate::model::table::TableMetadata;
use crate::model::text::Text;
use crate::model::update::TableUpdate;
use crate::model::warehouse::Warehouse;
use crate::store::keys::PublicationKey;
use crate::store::records::{Outcome, TabularRecord};
use crate::store::txn::Transaction;

/// How often a commit is judged anew because the state under it changed.
const COMMIT_ATTEMPTS_MAX: usize = 16;
/// The name of the transaction that changes several tables.
const TRANSACTION: &str = "commit_transaction";

/// What is to change in one table.
#[derive(Debug, Clone)]
pub struct TableChange {
    /// Which table.
    pub ident: TabularIdent,
    /// What has to be so.
    pub requirements: Vec<TableRequirement>,
    /// What becomes different, in order.
    pub updates: Vec<TableUpdate>,
}

impl TableChange {
    fn creates(&self) -> bool {
        self.requirements.iter().any(|it| matches!(it, TableRequirement::NotExist))
    }
}

/// A change that was judged and can be written.
struct Planned {
    ident: TabularIdent,
    metadata: Arc<TableMetadata>,
    text: Text,
    write: Write,
}

enum Write {
    /// Nothing: the table is already as the change wants it.
    Nothing(TabularRecord),
    /// A new table.
    New(NewTabular),
    /// A new version of a table.
    Version(Box<NewVersion>),
}

impl Planned {
    fn record(&self) -> &TabularRecord {
        match &self.write {
            Write::Nothing(record) => record,
            Write::New(new) => &new.record,
            Write::Version(new) => &new.after,
        }
    }

    /// The version that is on its way, if there is a new one.
    fn publication(&self) -> Option<PublicationKey> {
        let record = self.record();
        let key = PublicationKey { id: record.id, version: record.version };
        (!matches!(self.write, Write::Nothing(_))).then_some(key)
    }

    fn file(&self) -> Option<MetadataFile> {
        self.publication().map(|_| metadata_file(self.record(), &self.text))
    }
}

impl Catalog {
    /// Changes one table, or makes it where the change requires that it is not there.
    pub async fn commit_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: TableChange,
    ) -> Result<TabularState> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            for _ in 0..COMMIT_ATTEMPTS_MAX {
                let permit = operation.permit::<Commit>()?;
                let ended = match catalog.id_of(&warehouse, &change).await? {
                    Some(id) => {
                        let change = change.clone();
                        catalog.commit_in_group(&operation, permit, &warehouse, id, change).await?
                    }
                    None => catalog.commit_new(&operation, &warehouse, change.clone()).await?,
                };
                if let Some(answer) = ended {
                    return Ok(answer);
                }
            }
            Err(Error::unavailable("The table changes too fast", brief(&change.ident)))
        })
        .await?
        .into_tabular()
    }

    /// Makes a table that a change requires not to be there. None if it is there by now.
    async fn commit_new(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: TableChange,
    ) -> Result<Option<Answer>> {
        let permit = operation.permit::<Commit>()?;
        let Planned { ident, write, .. } = self.plan_new(warehouse, change).await?;
        let Write::New(new) = write else { return Ok(None) };
        self.insert(operation, &permit, "commit_table", &ident, new).await.map(Some)
    }

    /// Changes several tables: all of them or none.
    pub async fn commit_transaction(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        changes: Vec<TableChange>,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            catalog.commit_all(&operation, &warehouse, changes).await?;
            Ok(Answer::Done)
        })
        .await?;
        Ok(())
    }

    async fn commit_all(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        changes: Vec<TableChange>,
    ) -> Result<()> {
        let permit = operation.permit::<Commit>()?;
        self.check_changes(&changes)?;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let ids = self.ids_of(warehouse, &changes).await?;
            let lanes = self.inner.lanes.enter(ids.iter().flatten().copied().collect()).await?;
            let mut planned = Vec::with_capacity(changes.len());
            for (change, id) in changes.iter().zip(&ids) {
                match self.plan(warehouse, change, *id).await? {
                    Some(plan) => planned.push(plan),
                    None => break,
                }
            }
            if planned.len() < changes.len() {
                continue;
            }
            let keys = planned.iter().filter_map(Planned::publication).collect();
            let flight = self.inner.flights.register(keys);
            let written = self.write(operation, &permit, &planned).await?;
            let Some(accepted) = written else { continue };
            for plan in planned.iter().filter(|plan| plan.publication().is_some()) {
                let key = (plan.record().id, plan.record().version);
                let metadata = Some(Arc::clone(&plan.metadata));
                self.inner.versions.keep(key, Cached { text: plan.text.clone(), metadata });
            }
            let files = planned.iter().filter_map(Planned::file).collect();
            self.land(Landing { accepted, files, flight, lanes }).await?;
            if planned.iter().any(|plan| plan.outdates_files()) {
                self.inner.file_deletions.notify_one();
            }
            return Ok(());
        }
        Err(Error::unavailable("The tables change too fast", TRANSACTION))
    }

    /// Writes what was planned, in one transaction; none if something has changed meanwhile.
    async fn write(
        &self,
        operation: &Operation,
        permit: &Permit<Commit>,
        planned: &[Planned],
    ) -> Result<Option<crate::store::txn::Accepted>> {
        let catalog = self;
        let written = self
            .store()
            .transact(TRANSACTION, permit, |t| async move {
                for plan in planned {
                    if !catalog.put_plan(&t, operation, plan).await? {
                        return Err(Outrun::Stale);
                    }
                }
                Ok(catalog.remember(&t, operation, Outcome::Done)?)
            })
            .await;
        match written {
            Ok(((), accepted)) => Ok(Some(accepted)),
            Err(Outrun::Stale) => Ok(None),
            Err(Outrun::Failed(error)) => Err(error),
        }
    }

    async fn put_plan(
        &self,
        t: &Transaction,
        operation: &Operation,
        plan: &Planned,
    ) -> Result<bool> {
        match &plan.write {
            Write::Nothing(_) => Ok(true),
            Write::New(new) => {
                self.put_new(t, operation, TRANSACTION, &plan.ident, new).await?;
                Ok(true)
            }
            Write::Version(new) => {
                self.put_version(t, operation, TRANSACTION, &plan.ident, new).await
            }
        }
    }

    fn check_changes(&self, changes: &[TableChange]) -> Result<()> {
        let tables_max = self.settings().transaction_tables_max;
        if changes.is_empty() {
            return Err(Error::Invalid("Invalid table changes: empty".to_owned()));
        }
        if changes.len() > tables_max {
            return Err(Error::Invalid(format!(
                "Invalid table changes: {} tables, at most {tables_max} are allowed",
                changes.len()
            )));
        }
        let mut seen = HashSet::new();
        for change in changes {
            if !seen.insert(&change.ident) {
                return Err(Error::Invalid(format!(
                    "Invalid table changes: {} stands more than once",
                    brief(&change.ident)
                )));
            }
        }
        Ok(())
    }

    /// The ids of the tables that changes are for; none for those that are to be made.
    async fn ids_of(
        &self,
        warehouse: &Warehouse,
        changes: &[TableChange],
    ) -> Result<Vec<Option<Uuid>>> {
        let mut ids = Vec::with_capacity(changes.len());
        for change in changes {
            ids.push(self.id_of(warehouse, change).await?);
        }
        Ok(ids)
    }

    /// The id of the table that a change is for; none if it is to be made.
    async fn id_of(&self, warehouse: &Warehouse, change: &TableChange) -> Result<Option<Uuid>> {
        let ident = &change.ident;
        let kind = TabularKind::Table;
        if change.creates() {
            self.check_name(ident)?;
        } else if self.check_name(ident).is_err() {
            return Err(Error::no_such(kind, ident));
        }
        let id = lookup::tabular_id(&self.store().latest(), warehouse.id, kind, ident).await?;
        if id.is_none() && !change.creates() {
            return Err(Error::no_such(kind, ident));
        }
        Ok(id)
    }

    /// Judges a change of the table `id`, or of one that is to be made. None if the table has moved.
    async fn plan(
        &self,
        warehouse: &Warehouse,
        change: &TableChange,
        id: Option<Uuid>,
    ) -> Result<Option<Planned>> {
        match id {
            None => self.plan_new(warehouse, change.clone()).await.map(Some),
            Some(id) => {
                let store = self.store().latest();
                let kind = TabularKind::Table;
                let named = lookup::tabular_id(&store, warehouse.id, kind, &change.ident).await?;
                match self.head(&store, id).await? {
                    Some(head) if named == Some(id) => {
                        self.plan_version(warehouse, change, head).map(Some)
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    fn plan_version(
        &self,
        warehouse: &Warehouse,
        change: &TableChange,
        head: Head,
    ) -> Result<Planned> {
        let mut judging = Judging::new(self, warehouse, &head);
        judging.apply(change)?;
        let (state, new, metadata) = judging.finish();
        let write = match new {
            None => Write::Nothing(head.record),
            Some(new) => Write::Version(Box::new(new)),
        };
        Ok(Planned { ident: change.ident.clone(), metadata, text: state.text, write })
    }

    async fn plan_new(&self, warehouse: &Warehouse, change: TableChange) -> Result<Planned> {
        let ident = change.ident;
        let namespace = self.free_name(warehouse, TabularKind::Table, &ident).await?;
        let id = self.ids().random();
        let now_ms = self.now_ms();
        let context = CommitContext {
            now_ms,
            new_uuid: self.ids().random(),
            default_location: Some(self.default_location(warehouse, &namespace, &ident, id)),
        };
        let metadata = apply(None, &change.requirements, change.updates, &context)?.metadata;
        let (location, metadata_location) =
            self.check_locations(warehouse, &metadata.location, &metadata.properties, None)?;
        let record = NewRecord {
            id,
            kind: TabularKind::Table,
            warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.table_uuid,
            location: &location,
            metadata_location: &metadata_location,
            now_ms,
        }
        .build();
        let text = metadata.to_text();
        let new = NewTabular { record, text: text.clone(), publish: true };
        Ok(Planned { ident, metadata: Arc::new(metadata), text, write: Write::New(new) })
    }
}

impl Planned {
    fn outdates_files(&self) -> bool {
        matches!(&self.write, Write::Version(new) if !new.outdated.is_empty())
    }
}

/// Why a transaction of planned changes was not written.
enum Outrun {
    /// The state under a change is not the one that it was judged by.
    Stale,
    /// Something else.
    Failed(Error),
}

impl From<Error> for Outrun {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<crate::store::Error> for Outrun {
    fn from(error: crate::store::Error) -> Self {
        Self::Failed(error.into())
    }
}
