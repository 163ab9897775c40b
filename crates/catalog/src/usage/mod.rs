//! [`Usage`]: how often tables and views are loaded, scanned and changed, and by whom they were used
//! last.
//!
//! Each request counts its use in memory ([`counters`]). A background task adds these counts to
//! the records in the store once a minute. After a crash, the counts of the last minute are missing.

pub(crate) mod counters;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::admission::Admission;
use super::core::Core;
use super::listings::{Contents, Listings};
use super::loadable::Loadable;
use super::tabular::target::Target;
use super::{Error, Operation, Result, lookup};
use crate::resource_lookup::VISIBILITY_ACTIONS;
use slateberg_authz::action::{Action, ReadHistory};
use slateberg_authz::notation;
use slateberg_authz::permit::{Permit, Task};
use slateberg_authz::resource::{Kind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::page::PageRequest;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{TabularKey, UsageKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;
pub use slateberg_store::usage::{LastUse, UsageRecord};

/// Number of records that one transaction writes.
const BATCH_RECORDS_MAX: usize = 500;
/// Number of records that are read together.
const PAGE_RECORDS: usize = 5000;
/// Number of tables whose permissions are checked together.
const CHUNK_TABLES: usize = 200;

/// The use of tables and views. Cheap to clone.
#[derive(Clone)]
pub struct Usage {
    core: Arc<Core>,
    listings: Listings,
    /// The requests that read the usage of all tables.
    lists: Admission,
}

/// The order of a list of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageOrder {
    /// Tables that were not read since the beginning come first, then those whose last read was the
    /// longest time ago.
    LeastRecentlyRead,
    /// Tables with the most loads and planned scans come first.
    MostRead,
}

impl UsageOrder {
    const ALL: [Self; 2] = [Self::LeastRecentlyRead, Self::MostRead];

    /// Returns the name of the order in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeastRecentlyRead => "least-recently-read",
            Self::MostRead => "most-read",
        }
    }

    /// Returns the order with this name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == name).ok_or_else(|| {
            Error::Invalid(format!(
                "Invalid sort '{}'. Expected one of {}",
                brief(name),
                Self::ALL.map(Self::as_str).join(", ")
            ))
        })
    }

    /// Returns the number by which the list is ordered.
    fn position(self, usage: Option<&UsageRecord>) -> i64 {
        match self {
            Self::LeastRecentlyRead => {
                usage.and_then(|usage| usage.last_read.as_ref()).map_or(-1, |last| last.at_ms)
            }
            Self::MostRead => {
                let reads = usage.map_or(0, UsageRecord::reads);
                -i64::try_from(reads).unwrap_or(i64::MAX)
            }
        }
    }
}

/// The use of a table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabularUsage {
    /// The table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The counts. `None` if no use was counted.
    pub usage: Option<UsageRecord>,
    /// Whether the caller may see who used the table or view.
    pub shows_principals: bool,
}

/// A page of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsagePage {
    /// The tables.
    pub tables: Vec<TabularUsage>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

impl Usage {
    pub(crate) fn new(core: &Arc<Core>, listings: &Listings) -> Self {
        Self { core: Arc::clone(core), listings: listings.clone(), lists: Admission::new(1) }
    }

    /// Returns the use of a table or view. The caller needs `Load` on it.
    #[boxed]
    pub async fn of(&self, operation: &Operation, resource: &str) -> Result<TabularUsage> {
        let access = &self.core.access;
        let (name, kind, ident) = access.tabular_named(resource)?;
        self.core.environment.check_findable(kind, &ident)?;
        let warehouse = self.core.warehouses().by_prefix(Some(&name));
        let warehouse =
            warehouse.map_err(|absent| access.without_permissions(operation, absent))?;
        let target = Target { warehouse: &warehouse, kind, ident: &ident };
        let store = self.core.store().durable();
        let Loadable { record, .. } = access.loadable(&store, operation, target, false).await?;
        self.described(operation, &warehouse, &record, ident).await
    }

    /// Returns the tables of a warehouse that a listing shows to the caller, with their use.
    #[boxed]
    pub async fn list(
        &self,
        operation: &Operation,
        warehouse: &str,
        order: UsageOrder,
        page: &PageRequest,
    ) -> Result<UsagePage> {
        if let Some(hidden) = self.core.access.hidden_warehouse(operation, warehouse) {
            return Err(hidden);
        }
        let warehouse = self.core.warehouses().by_prefix(Some(warehouse))?;
        let after = page.after.as_deref().map(parse_position).transpose()?;
        let limit = page.limit.unwrap_or(self.core.settings().page_size_max).max(1);
        let busy = || {
            Error::unavailable(
                "Another request reads the usage of all tables. Retry later",
                "the list of usages",
            )
        };
        let _permit = self.lists.admit(busy).await?;
        let mut positions = self.positions(warehouse.id, order).await?;
        if let Some(after) = after {
            positions.retain(|position| *position > after);
        }
        positions.sort_unstable();
        let (mut tables, mut next) = (Vec::new(), None);
        let mut last = None;
        'chunks: for chunk in positions.chunks(CHUNK_TABLES) {
            for (position, record, ident) in self.listed(operation, &warehouse, chunk).await? {
                if tables.len() == limit {
                    next =
                        last.map(|(number, id): (i64, Uuid)| page.token(&format!("{number}/{id}")));
                    break 'chunks;
                }
                tables.push(self.described(operation, &warehouse, &record, ident).await?);
                last = Some(position);
            }
        }
        Ok(UsagePage { tables, next })
    }

    /// Adds the counted uses to the records in the store. Returns the number of records.
    #[boxed]
    pub(crate) async fn store_counts(&self) -> Result<usize> {
        let counters = &self.core.environment.usage;
        let mut uses = counters.take();
        let count = uses.len();
        while !uses.is_empty() {
            let batch = uses.split_off(uses.len().saturating_sub(BATCH_RECORDS_MAX));
            if let Err(error) = self.store_batch(&batch).await {
                uses.extend(batch);
                counters.put_back(uses);
                return Err(error);
            }
        }
        Ok(count)
    }

    async fn store_batch(&self, batch: &[(Uuid, UsageRecord)]) -> Result<()> {
        let permit = Permit::for_task(Task::Usage);
        let ((), accepted) = self
            .core
            .store()
            .transact("store_usage", &permit, |t| async move {
                let store = self.core.store().latest();
                for (id, uses) in batch {
                    // A removal also deletes the record of the uses, so that it conflicts with this
                    // transaction. This read is not a part of the transaction, because commits to
                    // the table must not conflict with it.
                    if store.get(&TabularKey(*id)).await?.is_none() {
                        continue;
                    }
                    let record = match t.get(&UsageKey(*id)).await? {
                        None => uses.clone(),
                        Some(mut record) => {
                            record.add(uses.clone());
                            record
                        }
                    };
                    t.put(&UsageKey(*id), &record)?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        // When the catalog closes, the store flushes only durable changes to sorted runs.
        Ok(accepted.durable().await?)
    }

    /// Returns the position in the order of each table of a warehouse.
    async fn positions(&self, warehouse: Uuid, order: UsageOrder) -> Result<Vec<(i64, Uuid)>> {
        let store = self.core.store().durable();
        let mut uses: HashMap<Uuid, i64> = HashMap::new();
        let mut waiting = self.core.environment.usage.all();
        let mut pages = Pages::<UsageKey>::of(KeySpace::Usage, PAGE_RECORDS);
        while let Some(page) = pages.next(&store).await? {
            for (UsageKey(id), mut usage) in page {
                if let Some(later) = waiting.remove(&id) {
                    usage.add(later);
                }
                uses.insert(id, order.position(Some(&usage)));
            }
        }
        uses.extend(waiting.into_iter().map(|(id, usage)| (id, order.position(Some(&usage)))));
        let mut positions = Vec::new();
        let mut pages = Pages::<TabularKey>::of(KeySpace::Tabulars, PAGE_RECORDS);
        while let Some(page) = pages.next(&store).await? {
            let tables = page.iter().filter(|(_, record)| {
                record.warehouse == warehouse && record.kind == TabularKind::Table
            });
            positions.extend(tables.map(|(TabularKey(id), _)| {
                (uses.get(id).copied().unwrap_or_else(|| order.position(None)), *id)
            }));
        }
        Ok(positions)
    }

    /// Returns those tables that a listing shows to the caller.
    async fn listed(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        positions: &[(i64, Uuid)],
    ) -> Result<Vec<((i64, Uuid), Arc<TabularRecord>, TabularIdent)>> {
        let store = self.core.store().durable();
        let mut tables = Vec::with_capacity(positions.len());
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for position in positions {
            // The table may have been dropped since its record was read.
            let Some(record) = store.get_shared(&TabularKey(position.1)).await? else { continue };
            let ident = lookup::ident_of(&store, &record).await?;
            groups.entry(ident.namespace.clone()).or_default().push(tables.len());
            tables.push((*position, record, ident));
        }
        let mut is_listed = vec![false; tables.len()];
        for (namespace, members) in groups {
            let names: Vec<_> = members.iter().map(|at| tables[*at].2.name.as_str()).collect();
            let contents = Contents { parent: Some(&namespace), kind: Kind::Table };
            let among = self.listings.listed_among(operation, warehouse, contents, &names).await?;
            for (at, shows) in members.into_iter().zip(among.into_iter().flatten()) {
                is_listed[at] = shows;
            }
        }
        let listed = tables.into_iter().zip(is_listed);
        Ok(listed.filter(|(_, is_listed)| *is_listed).map(|(table, _)| table).collect())
    }

    /// Returns the use of a table or view that the caller may see.
    async fn described(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        record: &TabularRecord,
        ident: TabularIdent,
    ) -> Result<TabularUsage> {
        let store = self.core.store().durable();
        let mut usage = store.get(&UsageKey(record.id)).await?;
        if let Some(later) = self.core.environment.usage.of(record.id) {
            match &mut usage {
                Some(usage) => usage.add(later),
                None => usage = Some(later),
            }
        }
        let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
        let resource = inside.tabular(record.kind, Node::named(&ident.name));
        let text = notation::resource_text(&resource);
        let actions = [&VISIBILITY_ACTIONS[..], &[ReadHistory::NAME]].concat();
        let described = self.core.access.described(resource, &actions).await?;
        let shows_principals = self.core.access.may::<ReadHistory>(operation, &described.resource);
        Ok(TabularUsage { resource: text, usage, shows_principals })
    }
}

fn parse_position(token: &str) -> Result<(i64, Uuid)> {
    let parts = token.split_once('/');
    let position = parts.and_then(|(number, id)| Some((number.parse().ok()?, id.parse().ok()?)));
    position.ok_or_else(|| {
        Error::Invalid(
            "Invalid page token: it does not belong to this list. Restart without a token"
                .to_owned(),
        )
    })
}
