//! Listings: the names directly in a warehouse or namespace that the caller may see.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::attributes::{attributes_of_namespace, namespace_resource};
use super::core::Core;
use super::known_pages::{Gathered, KnownPages, PageStart};
use super::{RequestContext, Result, lookup};
use slateberg_authz::action::{Action, List};
use slateberg_authz::authority::Asked;
use slateberg_authz::cache::PageKey;
use slateberg_authz::page::PageQuestion;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Kind, Node};
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::page::{Names, Page, PageRequest};
use slateberg_store::keys::{
    NamespaceKey, NamespaceNameKey, TabularKey, TabularNameKey, space, tabular_names,
};
use slateberg_store::read::{Durable, Read, Reading};
use slateberg_telemetry::collection::Collection;

/// Number of names that are read and filtered together.
const CHUNK_NAMES: usize = 1000;

/// The contents of a warehouse or namespace that a request lists.
#[derive(Clone, Copy)]
pub(super) struct Contents<'a> {
    /// The namespace. `None`: the root of the warehouse.
    pub(super) parent: Option<&'a NamespaceIdent>,
    /// Namespaces, tables or views.
    pub(super) kind: Kind,
}

/// Key range of the names to list.
struct Shelf {
    space: u8,
    parent: Uuid,
    kind: Kind,
}

/// Filter for the names that the caller may see.
#[derive(Clone, Copy)]
struct Question<'a> {
    question: &'a PageQuestion<'a>,
    /// Cache key of the result. `None`: it cannot be cached.
    key: Option<&'a PageKey>,
}

/// The names of a page with the attributes that policies need.
enum PageAttributes {
    /// Those of all names.
    Complete(Gathered),
    /// Those of the names that still exist, if some were removed since the names were read.
    Remaining(Vec<Node>),
}

impl Question<'_> {
    /// Returns the names of the visible nodes.
    fn shown(&self, nodes: &[Node]) -> Names {
        let answers = self.question.answer(nodes);
        let shown = nodes.iter().zip(answers).filter(|(_, yes)| *yes);
        shown.map(|(node, _)| node.name.as_str()).collect()
    }
}

/// Lists the contents of warehouses and namespaces. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Listings {
    core: Arc<Core>,
    pages: Arc<KnownPages>,
}

impl Listings {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let pages = Arc::new(KnownPages::new(core.settings().listing_cache_bytes));
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
            _ => space::NAMESPACE_NAMES,
        };
        let shelf = Shelf { space, parent: parent_id, kind };
        let names = match self.core.access.ask(operation)? {
            Asked::Nobody(_) => all(&store, &shelf, page).await?,
            Asked::Policies(asking) => {
                let root = NamespaceIdent::default();
                let wanted = asking.wants_attributes(&[A::NAME]);
                let ident = parent.unwrap_or(&root);
                let container = namespace_resource(&store, wanted, warehouse, ident).await?;
                let question = asking.page::<A>(&container, kind);
                match question.settled() {
                    Some(true) => all(&store, &shelf, page).await?,
                    Some(false) => Arc::default(),
                    None => {
                        let key = asking.page_key::<A>(&container, kind);
                        let asked = Question { question: &question, key: key.as_ref() };
                        self.visible_names(&store, &shelf, asked, page).await?
                    }
                }
            }
        };
        Ok(Page::cut(names, page))
    }

    /// Returns the visible names of a page, and one more if there is one.
    async fn visible_names(
        &self,
        store: &Durable<'_>,
        shelf: &Shelf,
        asked: Question<'_>,
        page: &PageRequest,
    ) -> Result<Arc<Names>> {
        let mut visible = Names::default();
        let mut after = page.after.clone();
        let wanted = page.read_limit().unwrap_or(usize::MAX);
        loop {
            let Shelf { space, parent, kind } = *shelf;
            let names = store.names(space, parent, after.as_deref(), Some(CHUNK_NAMES)).await?;
            let start = PageStart { space, parent, after };
            let shown = self.shown(store, kind, start, asked, &names).await?;
            let is_last = names.len() < CHUNK_NAMES;
            if visible.is_empty() && (is_last || shown.len() >= wanted) {
                return Ok(shown);
            }
            shown.iter().for_each(|name| visible.push(name));
            if is_last || visible.len() >= wanted {
                return Ok(Arc::new(visible));
            }
            after = names.get(CHUNK_NAMES - 1).map(ToOwned::to_owned);
        }
    }

    /// Returns the visible ones of these names.
    async fn shown(
        &self,
        store: &Durable<'_>,
        kind: Kind,
        start: PageStart,
        asked: Question<'_>,
        names: &Arc<Names>,
    ) -> Result<Arc<Names>> {
        let known = &self.pages;
        let gathered = match asked.question.needs_attributes() {
            true => match self.gathered(store, kind, &start, names).await? {
                PageAttributes::Complete(gathered) => Some(gathered),
                // A shortened page is not cached.
                PageAttributes::Remaining(left) => return Ok(Arc::new(asked.shown(&left))),
            },
            false => None,
        };
        let key = asked.key.map(|key| (key.clone(), start));
        if let Some(key) = &key
            && let Some(shown) = known.shown(key, names, gathered.as_ref())
        {
            return Ok(shown);
        }
        let shown = Arc::new(match &gathered {
            Some(gathered) => asked.shown(&gathered.nodes),
            None => asked.shown(&names.iter().map(Node::named).collect::<Vec<_>>()),
        });
        if let Some(key) = key {
            known.keep_shown(key, names, gathered.as_ref(), &shown);
        }
        Ok(shown)
    }

    /// Returns the names of a page with the attributes that policies evaluate. If one of them was
    /// dropped after the names were read, returns the rest as an error value.
    async fn gathered(
        &self,
        store: &Durable<'_>,
        kind: Kind,
        start: &PageStart,
        names: &Arc<Names>,
    ) -> Result<PageAttributes> {
        let known = &self.pages;
        let (unread, (mut nodes, mut readings)) = match known.gathered(start, names) {
            Some(page) => match page.stale(|readings| store.overtaken(readings)) {
                stale if stale.is_empty() => return Ok(PageAttributes::Complete(page)),
                stale => (stale, page.to_parts()),
            },
            None => {
                let nodes = names.iter().map(Node::named).collect();
                ((0..names.len()).collect(), (nodes, vec![None; names.len()]))
            }
        };
        let mut gone = HashSet::new();
        for at in unread {
            let name = nodes[at].name.clone();
            match self.attributes_on(store, start.parent, kind, &name).await? {
                Some((reading, attributes)) => {
                    nodes[at] = Node::known(name, attributes);
                    readings[at] = reading;
                }
                None => {
                    gone.insert(name);
                }
            }
        }
        if gone.is_empty() {
            let gathered = known.keep_gathered(start.clone(), names, (nodes, readings));
            return Ok(PageAttributes::Complete(gathered));
        }
        nodes.retain(|node| !gone.contains(&node.name));
        Ok(PageAttributes::Remaining(nodes))
    }

    /// Returns the attributes of a name, and the reading that tracks their validity.
    async fn attributes_on(
        &self,
        store: &Durable<'_>,
        parent: Uuid,
        kind: Kind,
        name: &str,
    ) -> Result<Option<(Option<Reading>, Arc<Attributes>)>> {
        let name = name.to_owned();
        let kind = match kind {
            Kind::Table => TabularKind::Table,
            Kind::View => TabularKind::View,
            _ => {
                let entry = store.get(&NamespaceNameKey { parent, name }).await?;
                let Some(entry) = entry else { return Ok(None) };
                let reading = store.reading(&NamespaceKey(entry.id));
                let record = store.get(&NamespaceKey(entry.id)).await?;
                let attributes = record.map(|record| attributes_of_namespace(&record));
                return Ok(attributes.map(|attributes| (reading, Arc::new(attributes))));
            }
        };
        let entry = store.get(&TabularNameKey { kind, namespace: parent, name }).await?;
        let Some(entry) = entry else { return Ok(None) };
        let reading = store.reading(&TabularKey(entry.id));
        let found = self.core.access.attributes_of(store, kind, entry.id).await?;
        Ok(found.map(|(attributes, _)| (reading, Arc::new(attributes))))
    }
}

async fn all(store: &Durable<'_>, shelf: &Shelf, page: &PageRequest) -> Result<Arc<Names>> {
    let (after, limit) = (page.after.as_deref(), page.read_limit());
    Ok(store.names(shelf.space, shelf.parent, after, limit).await?)
}
