//! Listing what is directly in a warehouse or namespace: the names that the asker may see, and no others.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::known_nodes::{KnownPage, PageStart};
use super::permits::{attributes_of_namespace, namespace_resource};
use super::{Catalog, Operation, Result, lookup};
use crate::authz::action::{Action, List};
use crate::authz::authority::Asked;
use crate::authz::page::PageQuestion;
use crate::authz::permit::Permit;
use crate::authz::resource::{Attributes, Kind, Node};
use crate::model::ident::{NamespaceIdent, TabularKind};
use crate::model::page::{Names, Page, PageRequest};
use crate::model::warehouse::Warehouse;
use crate::store::keys::{
    NamespaceKey, NamespaceNameKey, TabularKey, TabularNameKey, space, tabular_names,
};
use crate::store::read::{Durable, Read, Reading};

/// Names that are read and filtered together.
const CHUNK_NAMES: usize = 1000;

/// What is to be listed.
#[derive(Clone, Copy)]
pub(super) struct Contents<'a> {
    /// The warehouse.
    pub(super) warehouse: &'a Warehouse,
    /// The namespace; none for the root of the warehouse.
    pub(super) parent: Option<&'a NamespaceIdent>,
    /// What kind of things: namespaces, tables or views.
    pub(super) kind: Kind,
}

/// Where the names stand that are to be listed.
struct Shelf {
    space: u8,
    parent: Uuid,
    kind: Kind,
}

impl Catalog {
    /// A page of the names of those to which `A` may be done.
    pub(super) async fn list_contents<A: Action>(
        &self,
        operation: &Operation,
        contents: Contents<'_>,
        page: &PageRequest,
    ) -> Result<Page> {
        let Contents { warehouse, parent, kind } = contents;
        let store = self.store().durable();
        let parent_id = match parent {
            Some(ident) => {
                let _permit: Permit<List> =
                    self.permit_namespace(&store, operation, warehouse, ident).await?;
                lookup::namespace_to_list(&store, warehouse.id, ident).await?
            }
            None => {
                let name = &warehouse.name;
                let _permit: Permit<List> = self.permit_warehouse(operation, warehouse, name)?;
                warehouse.id
            }
        };
        let space = match kind {
            Kind::Table => tabular_names(TabularKind::Table),
            Kind::View => tabular_names(TabularKind::View),
            _ => space::NAMESPACE_NAMES,
        };
        let shelf = Shelf { space, parent: parent_id, kind };
        let names = match self.ask(operation)? {
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
                    None => Arc::new(self.visible_names(&store, &shelf, &question, page).await?),
                }
            }
        };
        Ok(Page::cut(names, page.limit))
    }

    /// The names of a page that a question is answered with yes for: one more than wanted, if there is one.
    async fn visible_names(
        &self,
        store: &Durable<'_>,
        shelf: &Shelf,
        question: &PageQuestion<'_>,
        page: &PageRequest,
    ) -> Result<Names> {
        let mut visible = Names::default();
        let mut after = page.after.clone();
        let wanted = page.read_limit().unwrap_or(usize::MAX);
        while visible.len() < wanted {
            let Shelf { space, parent, .. } = shelf;
            let limit = Some(CHUNK_NAMES);
            let names = store.names(*space, *parent, after.as_deref(), limit).await?;
            let nodes = match question.needs_attributes() {
                true => {
                    let start = PageStart { space: *space, parent: *parent, after };
                    self.known_nodes(store, shelf.kind, start, &names).await?
                }
                false => names.iter().map(Node::named).collect(),
            };
            for (node, yes) in nodes.iter().zip(question.answer(&nodes)) {
                if yes && visible.len() < wanted {
                    visible.push(&node.name);
                }
            }
            if names.len() < CHUNK_NAMES {
                break;
            }
            after = names.get(CHUNK_NAMES - 1).map(ToOwned::to_owned);
        }
        Ok(visible)
    }

    /// What the names of a page stand for, with what policies can ask of it. What is gone since its name was
    /// read is left out.
    async fn known_nodes(
        &self,
        store: &Durable<'_>,
        kind: Kind,
        start: PageStart,
        names: &Arc<Names>,
    ) -> Result<Arc<[Node]>> {
        let known = &self.inner.known_nodes;
        let page = known.get(&start, names);
        let unread = match &page {
            Some(page) => store.overtaken(&page.readings),
            None => (0..names.len()).collect(),
        };
        let (mut nodes, mut readings): (Vec<_>, Vec<_>) = match page {
            Some(page) if unread.is_empty() => return Ok(page.nodes),
            Some(page) => (page.nodes.to_vec(), page.readings.to_vec()),
            None => (names.iter().map(Node::named).collect(), vec![None; names.len()]),
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
            let nodes: Arc<[Node]> = nodes.into();
            let (names, readings) = (Arc::clone(names), readings.into());
            known.keep(start, KnownPage { names, nodes: Arc::clone(&nodes), readings });
            return Ok(nodes);
        }
        Ok(nodes.into_iter().filter(|node| !gone.contains(&node.name)).collect())
    }

    /// What policies can ask of what has a name, and until when that holds.
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
        let attributes = self.attributes_of(store, kind, entry.id).await?;
        Ok(attributes.map(|attributes| (reading, Arc::new(attributes))))
    }
}

async fn all(store: &Durable<'_>, shelf: &Shelf, page: &PageRequest) -> Result<Arc<Names>> {
    let (after, limit) = (page.after.as_deref(), page.read_limit());
    Ok(store.names(shelf.space, shelf.parent, after, limit).await?)
}
