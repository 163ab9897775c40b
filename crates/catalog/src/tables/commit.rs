//! Committing to tables: one, or several as one.
//!
//! A commit is judged against the accepted state, then written in a serializable transaction that finds
//! that state unchanged. Its lane makes that certain for existing tables; for new ones the transaction
//! itself decides between two who want the same name. Those that wait for one table go together
//! ([`group`](super::group)).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::plan::{Planned, Write};
use crate::mutation::Answer;
use crate::permits::{Creation, Intent, Target};
use crate::publications::Landing;
use crate::tabulars::TabularState;
use crate::version_cache::Cached;
use crate::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::action::{Commit, Create};
use slateberg_authz::authority::Asked;
use slateberg_authz::commit_kind::{Refs, of_table};
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::requirement::TableRequirement;
use slateberg_model::update::TableUpdate;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::Outcome;
use slateberg_store::txn::Transaction;
use slateberg_telemetry::commits::Phase;

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

    /// What it is for, where the table has these branches and tags.
    pub(super) fn intent(&self, refs: &Refs) -> Intent {
        match self.creates() {
            true => Intent::Make,
            false => Intent::Change(of_table(&self.updates, refs)),
        }
    }

    /// The properties and the location that it gives to a table that it makes.
    fn made(&self) -> (BTreeMap<String, String>, Option<&String>) {
        let mut properties = BTreeMap::new();
        let mut location = None;
        for update in &self.updates {
            match update {
                TableUpdate::SetProperties { updates } => properties.extend(updates.clone()),
                TableUpdate::RemoveProperties { removals } => {
                    removals.iter().for_each(|key| _ = properties.remove(key));
                }
                TableUpdate::SetLocation { location: to } => location = Some(to),
                _ => {}
            }
        }
        (properties, location)
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
        let ended = self.commit("commit_table", operation, |catalog, operation| async move {
            for _ in 0..COMMIT_ATTEMPTS_MAX {
                let permit = catalog.permit_change(&operation, &warehouse, &change).await?;
                let ended = match catalog.id_of(&warehouse, &change).await? {
                    Some(id) => {
                        let change = change.clone();
                        catalog.commit_in_group(&operation, &warehouse, id, change).await?
                    }
                    None => {
                        catalog.commit_new(&operation, permit, &warehouse, change.clone()).await?
                    }
                };
                if let Some(answer) = ended {
                    return Ok(answer);
                }
            }
            Err(Error::unavailable(
                "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
                brief(&change.ident),
            ))
        });
        ended.await?.into_tabular()
    }

    /// The permit for a change of a table as it is now, or to make it.
    async fn permit_change(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: &TableChange,
    ) -> Result<Permit<Commit>> {
        let (kind, ident) = (TabularKind::Table, &change.ident);
        match change.creates() {
            true => self.check_name(ident)?,
            false => self.check_findable(kind, ident)?,
        }
        if let Asked::Nobody(unrestricted) = self.ask(operation)? {
            return Ok(unrestricted.permit());
        }
        if change.creates() {
            let (properties, location) = change.made();
            let creation = Creation { kind, ident, properties: &properties, location };
            let create: Permit<Create> =
                self.permit_creation(operation, warehouse, creation).await?;
            return Ok(create.into());
        }
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
        let head = match id {
            Some(id) => self.head(&store, id).await?,
            None => None,
        };
        let kinds = match head {
            Some(head) => of_table(&change.updates, &head.metadata.refs),
            None => of_table(&change.updates, &Refs::new()),
        };
        let target = Target { warehouse, kind, ident };
        self.permit_commit(&store, operation, target, &kinds).await
    }

    /// Makes a table that a change requires not to be there. None if it is there by now.
    async fn commit_new(
        &self,
        operation: &Operation,
        permit: Permit<Commit>,
        warehouse: &Warehouse,
        change: TableChange,
    ) -> Result<Option<Answer>> {
        let plan = self.plan_new(operation, permit, warehouse, change).await?;
        let Planned { permit, ident, write, .. } = plan;
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
        let ended = self.commit(TRANSACTION, operation, |catalog, operation| async move {
            catalog.commit_all(&operation, &warehouse, changes).await?;
            Ok(Answer::Done)
        });
        ended.await.map(|_| ())
    }

    async fn commit_all(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        changes: Vec<TableChange>,
    ) -> Result<()> {
        self.check_changes(&changes)?;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            self.permit_changes(operation, warehouse, &changes).await?;
            let ids = self.ids_of(warehouse, &changes).await?;
            let waiting = self.phase(&operation.trace, Phase::Wait);
            let lanes = self.inner.lanes.enter(ids.iter().flatten().copied().collect()).await?;
            drop(waiting);
            let judging = self.phase(&operation.trace, Phase::Judge);
            let permits = self.permit_changes(operation, warehouse, &changes).await?;
            let mut planned = Vec::with_capacity(changes.len());
            for ((change, id), permit) in changes.iter().zip(&ids).zip(permits) {
                match self.plan(operation, permit, warehouse, change, *id).await? {
                    Some(plan) => planned.push(plan),
                    None => break,
                }
            }
            if planned.len() < changes.len() {
                continue;
            }
            drop(judging);
            // From the moment that they are written, others find the tables that are made. Until then nobody
            // knows their ids, so that their lanes are free, and entering them late locks nobody out.
            let made = planned.iter().filter(|plan| plan.is_new()).map(|plan| plan.record().id);
            let lanes = lanes.and(self.inner.lanes.enter(made.collect()).await?);
            let keys = planned.iter().filter_map(Planned::publication).collect();
            let flight = self.inner.flights.register(keys);
            let applying = self.phase(&operation.trace, Phase::Apply);
            let written = self.write(operation, &planned).await?;
            drop(applying);
            let Some(accepted) = written else { continue };
            for plan in planned.iter().filter(|plan| plan.publication().is_some()) {
                let key = (plan.record().id, plan.record().version);
                let metadata = Some(Arc::clone(&plan.metadata));
                self.inner.versions.keep(key, Cached { text: plan.text.clone(), metadata });
            }
            let files = planned.iter().filter_map(Planned::file).collect();
            let trace = operation.trace.clone();
            self.land(Landing { accepted, files, flight, lanes, trace }).await?;
            if planned.iter().any(|plan| plan.outdates_files()) {
                self.inner.jobs.announce();
            }
            return Ok(());
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the tables are changed concurrently. Retry later",
            TRANSACTION,
        ))
    }

    /// The permits for all changes: before any requirement is looked at, so that what is said of one table
    /// tells nothing of another.
    async fn permit_changes(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        changes: &[TableChange],
    ) -> Result<Vec<Permit<Commit>>> {
        let mut permits = Vec::with_capacity(changes.len());
        for change in changes {
            permits.push(self.permit_change(operation, warehouse, change).await?);
        }
        Ok(permits)
    }

    /// Writes what was planned, in one transaction; none if something has changed meanwhile.
    async fn write(
        &self,
        operation: &Operation,
        planned: &[Planned],
    ) -> Result<Option<slateberg_store::txn::Accepted>> {
        let catalog = self;
        let [first, ..] = planned else { return Ok(None) };
        let written = self
            .store()
            .transact(TRANSACTION, &first.permit, |t| async move {
                for plan in planned {
                    if !catalog.put_plan(&t, operation, plan).await? {
                        return Err(Outrun::Stale);
                    }
                }
                let published = planned.iter().filter_map(Planned::publication).collect();
                Ok(catalog.remember_published(&t, operation, Outcome::Done, published)?)
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
                self.put_new(t, operation, &plan.permit, TRANSACTION, &plan.ident, new).await?;
                Ok(true)
            }
            Write::Version(new) => {
                self.put_version(t, operation, &plan.permit, TRANSACTION, &plan.ident, new).await
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
                    "Invalid table changes: {} occurs more than once",
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
        let id = lookup::tabular_id(&self.store().latest(), warehouse.id, kind, ident).await?;
        if id.is_none() && !change.creates() {
            return Err(Error::no_such(kind, ident));
        }
        Ok(id)
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

impl From<slateberg_store::Error> for Outrun {
    fn from(error: slateberg_store::Error) -> Self {
        Self::Failed(error.into())
    }
}
