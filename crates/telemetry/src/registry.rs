//! [`Registry`]: who has something to tell. It is asked when somebody wants to know, so that nothing has to
//! be copied while nobody does.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::collection::Collection;

type Source = Box<dyn Fn(&mut Collection) + Send + Sync>;

/// Whoever measures something, by name.
#[derive(Default)]
pub struct Registry {
    sources: Mutex<BTreeMap<&'static str, Source>>,
}

impl Registry {
    /// From now on, `source` is asked as well. It takes the place of another one with its name.
    pub fn register(
        &self,
        name: &'static str,
        source: impl Fn(&mut Collection) + Send + Sync + 'static,
    ) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.insert(name, Box::new(source));
    }

    /// What all of them have to tell.
    pub fn collect(&self) -> Collection {
        let mut collection = Collection::default();
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.values().for_each(|source| source(&mut collection));
        collection
    }
}
