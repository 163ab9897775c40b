//! Lists the names directly in a warehouse or namespace that the caller may see.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::attributes::{attributes_of_function, attributes_of_namespace, namespace_resource};
use super::core::Core;
use super::listing_cache::{ListingCache, NamedAttributes, PageStart};
use super::{Operation, RequestContext, Result, lookup};
use slateberg_authz::action::{Action, DescribeNamespace, List, Load, ReadConfig};
use slateberg_authz::authority::Decider;
use slateberg_authz::cache::PageKey;
use slateberg_authz::page::PageQuestion;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Kind, Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::page::{Names, Page, PageRequest};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{
    FunctionKey, NamespaceKey, NamespaceNameKey, TabularKey, TabularNameKey, tabular_names,
};
use slateberg_store::read::{DurableView, ReadStamp, StoreRead};
use slateberg_telemetry::collection::Collection;

/// Number of names that are read and filtered together.
const CHUNK_NAMES: usize = 1000;

/// The contents of a warehouse or namespace that a request lists.
#[derive(Clone, Copy)]
pub(super) struct Contents<'a> {
    /// The namespace. `None` for the root of the warehouse.
    pub(super) parent: Option<&'a NamespaceIdent>,
    /// Namespaces, tables, views or functions.
    pub(super) kind: Kind,
}

/// Key range of the names to list.
struct ListingRange {
    space: KeySpace,
    parent: Uuid,
    kind: Kind,
}

/// Filter for the names that the caller may see.
#[derive(Clone, Copy)]
struct Question<'a> {
    question: &'a PageQuestion<'a>,
    /// Cache key of the result. `None` if the result cannot be cached.
    key: Option<&'a PageKey>,
}

/// The names of a page with the attributes that policies need.
enum PageAttributes {
    /// The attributes of all names.
    Complete(NamedAttributes),
    /// The attributes of the remaining names. Some names were dropped after the names were read.
    Remaining(Vec<Node>),
}

impl Question<'_> {
    /// Returns the names of the visible nodes.
    fn visible_names(&self, nodes: &[Node]) -> Names {
        let answers = self.question.answer(nodes);
        let visible = nodes.iter().zip(answers).filter(|(_, yes)| *yes);
        visible.map(|(node, _)| node.name.as_str()).collect()
    }
}

/// Lists the contents of warehouses and namespaces. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Listings {
    core: Arc<Core>,
    pages: Arc<ListingCache>,
}

impl Listings {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let pages = Arc::new(ListingCache::new(core.settings().listing_cache_bytes));
        Self { core: Arc::clone(core), pages }
    }

    /// Collects the metrics of the cache.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.pages.usage().collect(into, "listing", "Pages of names that policies filter");
    }

    /// Returns a page of the names on which the caller may do `A`.
    pub(super) async fn list_contents<A: Action>(
        &self,
        cx: &RequestContext,
        contents: Contents<'_>,
        page: &PageRequest,
    ) -> Result<Page> {
        let RequestContext { operation, warehouse } = cx;
        let Contents { parent, kind } = contents;
        let store = self.core.store().durable();
        let parent_id = match parent {
            Some(ident) => {
                self.core.environment.check_findable_namespace(ident)?;
                let _permit: Permit<List> =
                    self.core.access.permit_namespace(&store, cx, ident).await?;
                lookup::namespace_to_list(&store, warehouse.id, ident).await?
            }
            None => {
                let name = &warehouse.name;
                let _permit: Permit<List> =
                    self.core.access.permit_warehouse(operation, warehouse, name)?;
                warehouse.id
            }
        };
        let space = match kind {
            Kind::Table => tabular_names(TabularKind::Table),
            Kind::View => tabular_names(TabularKind::View),
            Kind::Function => KeySpace::Functions,
            _ => KeySpace::NamespaceNames,
        };
        let shelf = ListingRange { space, parent: parent_id, kind };
        let names = match self.core.access.ask(operation)? {
            Decider::Unrestricted(_) => all(&store, &shelf, page).await?,
            Decider::Policies(asking) => {
                let root = NamespaceIdent::default();
                let needed = asking.wants_attributes(&[A::NAME]);
                let ident = parent.unwrap_or(&root);
                let container = namespace_resource(&store, needed, warehouse, ident).await?;
                let question = asking.page::<A>(&container, kind);
                match question.constant_result() {
                    Some(true) => all(&store, &shelf, page).await?,
                    Some(false) => Arc::default(),
                    None => {
                        let key = asking.page_key::<A>(&container, kind);
                        let access_question = Question { question: &question, key: key.as_ref() };
                        self.visible_names(&store, &shelf, access_question, page).await?
                    }
                }
            }
        };
        Ok(Page::cut(names, page))
    }

    /// Returns for each of `names` whether a listing of `contents` returns it to the caller. `None`
    /// if the caller sees none of the contents.
    pub(super) async fn listed_among(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        contents: Contents<'_>,
        names: &[&str],
    ) -> Result<Option<Vec<bool>>> {
        match contents.kind {
            Kind::Namespace => {
                self.shown_among::<DescribeNamespace>(operation, warehouse, contents, names).await
            }
            _ => self.shown_among::<Load>(operation, warehouse, contents, names).await,
        }
    }

    async fn shown_among<A: Action>(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        Contents { parent, kind }: Contents<'_>,
        names: &[&str],
    ) -> Result<Option<Vec<bool>>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(_) => return Ok(Some(vec![true; names.len()])),
            Decider::Policies(asking) => asking,
        };
        let store = self.core.store().durable();
        let root = NamespaceIdent::default();
        let ident = parent.unwrap_or(&root);
        let needed = asking.wants_attributes(&[List::NAME, A::NAME]);
        let container = namespace_resource(&store, needed, warehouse, ident).await?;
        let is_listed = asking.may::<ReadConfig>(&Resource::warehouse(&warehouse.name))
            && asking.may::<List>(&container);
        if !is_listed {
            return Ok(None);
        }
        let question = asking.page::<A>(&container, kind);
        match question.constant_result() {
            Some(true) => return Ok(Some(vec![true; names.len()])),
            Some(false) => return Ok(None),
            None => {}
        }
        if !question.needs_attributes() {
            let nodes: Vec<_> = names.iter().map(|name| Node::named(*name)).collect();
            return Ok(Some(question.answer(&nodes)));
        }
        let Some(parent) = lookup::namespace_id(&store, warehouse.id, ident).await? else {
            return Ok(None);
        };
        let mut nodes = Vec::with_capacity(names.len());
        let mut exists = Vec::with_capacity(names.len());
        for name in names {
            let found = self.attributes_on(&store, parent, kind, name).await?;
            exists.push(found.is_some());
            let attributes = found.map(|(_, attributes)| attributes).unwrap_or_default();
            nodes.push(Node::known(*name, attributes));
        }
        let answers = question.answer(&nodes);
        Ok(Some(answers.into_iter().zip(exists).map(|(yes, exists)| yes && exists).collect()))
    }

    /// Returns the visible names of a page. If there is a next page, also returns at least the
    /// first name of the next page.
    async fn visible_names(
        &self,
        store: &DurableView<'_>,
        shelf: &ListingRange,
        access_question: Question<'_>,
        page: &PageRequest,
    ) -> Result<Arc<Names>> {
        let mut visible = Names::default();
        let mut after = page.after.clone();
        let needed = page.read_limit().unwrap_or(usize::MAX);
        loop {
            let ListingRange { space, parent, kind } = *shelf;
            let names = store.names(space, parent, after.as_deref(), Some(CHUNK_NAMES)).await?;
            let start = PageStart { space, parent, after };
            let visible_page = self.visible_of(store, kind, start, access_question, &names).await?;
            let is_last = names.len() < CHUNK_NAMES;
            if visible.is_empty() && (is_last || visible_page.len() >= needed) {
                return Ok(visible_page);
            }
            visible_page.iter().for_each(|name| visible.push(name));
            if is_last || visible.len() >= needed {
                return Ok(Arc::new(visible));
            }
            after = names.get(CHUNK_NAMES - 1).map(ToOwned::to_owned);
        }
    }

    /// Returns those of `names` that the caller may see.
    async fn visible_of(
        &self,
        store: &DurableView<'_>,
        kind: Kind,
        start: PageStart,
        access_question: Question<'_>,
        names: &Arc<Names>,
    ) -> Result<Arc<Names>> {
        let known = &self.pages;
        let gathered = match access_question.question.needs_attributes() {
            true => match self.attributes_of_names(store, kind, &start, names).await? {
                PageAttributes::Complete(gathered) => Some(gathered),
                // The page is not cached, because some of its names were dropped.
                PageAttributes::Remaining(left) => {
                    return Ok(Arc::new(access_question.visible_names(&left)));
                }
            },
            false => None,
        };
        let key = access_question.key.map(|key| (key.clone(), start));
        if let Some(key) = &key
            && let Some(visible) = known.visible_names(key, names, gathered.as_ref())
        {
            return Ok(visible);
        }
        let visible = Arc::new(match &gathered {
            Some(gathered) => access_question.visible_names(&gathered.nodes),
            None => {
                access_question.visible_names(&names.iter().map(Node::named).collect::<Vec<_>>())
            }
        });
        if let Some(key) = key {
            known.insert_visible(key, names, gathered.as_ref(), &visible);
        }
        Ok(visible)
    }

    /// Returns the names of a page with the attributes that policies evaluate. Returns `Remaining`
    /// if a name was dropped after the names were read.
    async fn attributes_of_names(
        &self,
        store: &DurableView<'_>,
        kind: Kind,
        start: &PageStart,
        names: &Arc<Names>,
    ) -> Result<PageAttributes> {
        let known = &self.pages;
        let (unread, (mut nodes, mut readings)) = match known.attributes_of_names(start, names) {
            Some(page) => match page.stale(|readings| store.stale_reads(readings)) {
                stale if stale.is_empty() => return Ok(PageAttributes::Complete(page)),
                stale => (stale, page.to_parts()),
            },
            None => {
                let nodes = names.iter().map(Node::named).collect();
                ((0..names.len()).collect(), (nodes, vec![None; names.len()]))
            }
        };
        let mut dropped = HashSet::new();
        for at in unread {
            let name = nodes[at].name.clone();
            match self.attributes_on(store, start.parent, kind, &name).await? {
                Some((reading, attributes)) => {
                    nodes[at] = Node::known(name, attributes);
                    readings[at] = reading;
                }
                None => {
                    dropped.insert(name);
                }
            }
        }
        if dropped.is_empty() {
            let gathered = known.insert_attributes(start.clone(), names, (nodes, readings));
            return Ok(PageAttributes::Complete(gathered));
        }
        nodes.retain(|node| !dropped.contains(&node.name));
        Ok(PageAttributes::Remaining(nodes))
    }

    /// Returns the attributes of a name, and the stamp that detects later writes of its record.
    /// `None` if the name was dropped.
    async fn attributes_on(
        &self,
        store: &DurableView<'_>,
        parent: Uuid,
        kind: Kind,
        name: &str,
    ) -> Result<Option<(Option<ReadStamp>, Arc<Attributes>)>> {
        let name = name.to_owned();
        let kind = match kind {
            Kind::Table => TabularKind::Table,
            Kind::View => TabularKind::View,
            Kind::Function => {
                let key = FunctionKey { namespace: parent, name };
                let reading = store.read_stamp(&key);
                let record = store.get(&key).await?;
                let attributes = record.map(|record| attributes_of_function(&record));
                return Ok(attributes.map(|attributes| (reading, Arc::new(attributes))));
            }
            _ => {
                let entry = store.get(&NamespaceNameKey { parent, name }).await?;
                let Some(entry) = entry else { return Ok(None) };
                let reading = store.read_stamp(&NamespaceKey(entry.id));
                let record = store.get(&NamespaceKey(entry.id)).await?;
                let attributes = record.map(|record| attributes_of_namespace(&record));
                return Ok(attributes.map(|attributes| (reading, Arc::new(attributes))));
            }
        };
        let entry = store.get(&TabularNameKey { kind, namespace: parent, name }).await?;
        let Some(entry) = entry else { return Ok(None) };
        let reading = store.read_stamp(&TabularKey(entry.id));
        let found = self.core.access.attributes_of(store, kind, entry.id).await?;
        Ok(found.map(|(attributes, _)| (reading, Arc::new(attributes))))
    }
}

async fn all(
    store: &DurableView<'_>,
    shelf: &ListingRange,
    page: &PageRequest,
) -> Result<Arc<Names>> {
    let (after, limit) = (page.after.as_deref(), page.read_limit());
    Ok(store.names(shelf.space, shelf.parent, after, limit).await?)
}
