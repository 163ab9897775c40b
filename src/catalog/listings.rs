//! Listing what is directly in a warehouse or namespace: the names that the asker may see, and no others.

use std::sync::Arc;

use uuid::Uuid;

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
use crate::store::keys::{NamespaceKey, NamespaceNameKey, TabularNameKey, space, tabular_names};
use crate::store::read::{Durable, Read};

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
            let nodes = self.nodes(store, shelf, question, &names).await?;
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

    /// What the names stand for, as policies know it: with attributes, if the question wants them.
    async fn nodes(
        &self,
        store: &Durable<'_>,
        shelf: &Shelf,
        question: &PageQuestion<'_>,
        names: &Names,
    ) -> Result<Vec<Node>> {
        if !question.needs_attributes() {
            return Ok(names.iter().map(Node::named).collect());
        }
        let mut nodes = Vec::with_capacity(names.len());
        for name in names.iter() {
            // What is gone since its name was read is left out.
            if let Some(attributes) = self.attributes_on(store, shelf, name).await? {
                nodes.push(Node::known(name, attributes));
            }
        }
        Ok(nodes)
    }

    async fn attributes_on(
        &self,
        store: &Durable<'_>,
        shelf: &Shelf,
        name: &str,
    ) -> Result<Option<Arc<Attributes>>> {
        let (parent, name) = (shelf.parent, name.to_owned());
        let kind = match shelf.kind {
            Kind::Table => TabularKind::Table,
            Kind::View => TabularKind::View,
            _ => {
                let entry = store.get(&NamespaceNameKey { parent, name }).await?;
                let Some(entry) = entry else { return Ok(None) };
                let record = store.get(&NamespaceKey(entry.id)).await?;
                return Ok(record.map(|record| Arc::new(attributes_of_namespace(&record))));
            }
        };
        let entry = store.get(&TabularNameKey { kind, namespace: parent, name }).await?;
        let Some(entry) = entry else { return Ok(None) };
        Ok(self.attributes_of(store, kind, entry.id).await?.map(Arc::new))
    }
}

async fn all(store: &Durable<'_>, shelf: &Shelf, page: &PageRequest) -> Result<Arc<Names>> {
    let (after, limit) = (page.after.as_deref(), page.read_limit());
    Ok(store.names(shelf.space, shelf.parent, after, limit).await?)
}
