//! Reads all namespaces with their full names.

use std::borrow::Cow;
use std::collections::HashMap;

use uuid::Uuid;

use super::containers::Container;
use super::texts::comment_of;
use crate::Result;
use crate::core::Core;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::NamespaceKey;

/// Number of namespaces that are read together.
const PAGE_NAMESPACES: usize = 1000;

/// A namespace with its full name.
pub(super) struct Namespace {
    pub(super) id: Uuid,
    pub(super) container: Container,
    /// The beginning of its property `comment`.
    pub(super) comment: Option<String>,
}

/// Reads all namespaces.
pub(super) async fn namespaces(core: &Core) -> Result<HashMap<Uuid, Namespace>> {
    let store = core.store().durable();
    let mut records = HashMap::new();
    let mut pages = Pages::<NamespaceKey>::of(KeySpace::Namespaces, PAGE_NAMESPACES);
    while let Some(page) = pages.next(&store).await? {
        let page = page.into_iter();
        records.extend(page.map(|(key, it)| {
            (
                key.0,
                (it.warehouse, it.parent, it.name, comment_of(&it.properties).map(Cow::into_owned)),
            )
        }));
    }
    let full =
        |(&id, (warehouse, _, _, comment)): (&Uuid, &(Uuid, Uuid, String, Option<String>))| {
            let (mut levels, mut at) = (Vec::new(), id);
            // If a parent is missing, it was dropped while the namespaces were read, and this
            // namespace before it.
            while at != *warehouse {
                let (_, parent, name, _) = records.get(&at)?;
                levels.push(name.clone());
                at = *parent;
            }
            levels.reverse();
            let container = Container { warehouse: *warehouse, levels };
            Some((id, Namespace { id, container, comment: comment.clone() }))
        };
    Ok(records.iter().filter_map(full).collect())
}
