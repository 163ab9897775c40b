//! [`Containers`]: the warehouses and namespaces that contain names.

use std::collections::HashMap;

use uuid::Uuid;

use super::offsets::index_of;
use super::query::{SearchQuery, Words, fold};
use crate::Result;

/// The warehouse or namespace that contains names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Container {
    /// The id of the warehouse.
    pub(super) warehouse: Uuid,
    /// The levels of the namespace. Empty for the root of the warehouse.
    pub(super) levels: Vec<String>,
}

/// The number of a [`Container`] in the index.
pub(super) type ContainerId = u32;

/// The containers of an index.
#[derive(Clone, Default)]
pub(super) struct Containers {
    all: Vec<Container>,
    /// The folded levels of each container, separated by line feeds.
    folded: Vec<Box<str>>,
    ids: HashMap<Container, ContainerId>,
}

impl Containers {
    /// Returns the id of a container, which is added if it is new.
    pub(super) fn add(&mut self, container: Container) -> Result<ContainerId> {
        if let Some(id) = self.ids.get(&container) {
            return Ok(*id);
        }
        let id = index_of(self.all.len())?;
        self.folded.push(fold(&container.levels.join("\n")).into());
        self.all.push(container.clone());
        self.ids.insert(container, id);
        Ok(id)
    }

    /// Returns the position of each container in the order of the containers.
    pub(super) fn positions(&self) -> Vec<u32> {
        // The number of containers is checked when a container is added.
        let mut order: Vec<_> = (0..self.all.len() as u32).collect();
        order.sort_unstable_by_key(|at| &self.all[*at as usize]);
        let mut positions = vec![0; order.len()];
        (0..).zip(order).for_each(|(position, at)| positions[at as usize] = position);
        positions
    }

    /// Returns a container.
    pub(super) fn get(&self, id: ContainerId) -> Option<&Container> {
        self.all.get(id as usize)
    }

    /// Returns a container of the index.
    pub(super) fn of(&self, id: ContainerId) -> &Container {
        &self.all[id as usize]
    }

    /// Returns the words of a query that each container contains.
    pub(super) fn words(&self, query: &SearchQuery) -> Vec<Words> {
        self.folded.iter().map(|folded| query.contained_words(folded)).collect()
    }
}
