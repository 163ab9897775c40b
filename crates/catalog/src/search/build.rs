//! Builds the index of names from the store.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;
use uuid::Uuid;

use super::containers::{Container, ContainerId, Containers};
use super::name_index::NameIndex;
use super::name_list::NameList;
use super::namespaces::{Namespace, namespaces};
use crate::core::Core;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;
use slateberg_model::ident::TabularKind;
use slateberg_store::bulk_read::{IdRange, VisitedName};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::tabular_names;

/// Number of scans that read the names concurrently.
const SCANS: usize = 2;

/// Builds the index. Other tasks continue meanwhile, because threads for blocking work do most of
/// the work.
pub(super) async fn build(core: &Arc<Core>) -> Result<NameIndex> {
    let began = Instant::now();
    let (mut containers, mut names) = (Containers::default(), NameList::default());
    let mut ids = Vec::new();
    for Namespace { id, container, .. } in namespaces(core).await?.into_values() {
        let mut levels = container.levels.clone();
        if let Some(name) = levels.pop() {
            let parent = Container { warehouse: container.warehouse, levels };
            names.push(containers.add(parent)?, Kind::Namespace, &name, Some(id))?;
        }
        ids.push((id, containers.add(container)?));
    }
    ids.sort_unstable();
    let parts = parts(&ids);
    let ids: Arc<HashMap<_, _>> = Arc::new(ids.into_iter().collect());
    let scans = parts.into_iter().map(|parents| {
        let (core, ids, runtime) = (Arc::clone(core), Arc::clone(&ids), Handle::current());
        tokio::task::spawn_blocking(move || runtime.block_on(read_names(&core, &parents, &ids)))
    });
    // All scans run before the first one is awaited.
    for scan in scans.collect::<Vec<_>>() {
        names.append(&scan.await.map_err(Error::internal)??)?;
    }
    let index = tokio::task::spawn_blocking(move || NameIndex::build(containers, &names));
    let index = index.await.map_err(Error::internal)??;
    tracing::info!(
        names = index.len(),
        bytes = index.bytes(),
        duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "built the index of names for the first search"
    );
    Ok(index)
}

/// Divides the parents of names into ranges with about as many namespaces each.
fn parts(ids: &[(Uuid, ContainerId)]) -> Vec<IdRange> {
    let starts = (1..SCANS).filter_map(|part| Some(ids.get(ids.len() * part / SCANS)?.0));
    let mut starts: Vec<_> = starts.collect();
    starts.dedup();
    IdRange::divided_at(&starts)
}

/// Reads the names below these parents.
async fn read_names(
    core: &Core,
    parents: &IdRange,
    ids: &HashMap<Uuid, ContainerId>,
) -> Result<NameList> {
    let store = core.store().durable();
    let spaces = [
        (tabular_names(TabularKind::Table), Kind::Table),
        (tabular_names(TabularKind::View), Kind::View),
        (KeySpace::Functions, Kind::Function),
    ];
    let mut names = NameList::default();
    for (space, kind) in spaces {
        let mut pushed = Ok(0);
        let mut last = None;
        let mut visit = |VisitedName { parent, name, id }: VisitedName<'_>| {
            // The names of a namespace follow each other.
            let container = match last {
                Some((last, container)) if last == parent => container,
                _ => ids.get(&parent).copied(),
            };
            last = Some((parent, container));
            // If the namespace is missing, it was created after the namespaces were read. The
            // change feed then contains the creation of the name, too.
            if let Some(container) = container
                && pushed.is_ok()
            {
                pushed = names.push(container, kind, name, id);
            }
        };
        store.visit_names(space, parents, &mut visit).await?;
        pushed?;
    }
    Ok(names)
}
