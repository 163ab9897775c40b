//! [`Registry`]: the sources of metrics. Their values are read only on a scrape or an export.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::collection::Collection;

type Source = Box<dyn Fn(&mut Collection) + Send + Sync>;

/// Sources of metrics, by name.
#[derive(Default)]
pub struct Registry {
    sources: Mutex<BTreeMap<&'static str, Source>>,
}

impl Registry {
    /// Registers a source. Replaces an earlier source with the same name.
    pub fn register(
        &self,
        name: &'static str,
        source: impl Fn(&mut Collection) + Send + Sync + 'static,
    ) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.insert(name, Box::new(source));
    }

    /// Collects the metrics of all sources.
    pub fn collect(&self) -> Collection {
        let mut collection = Collection::default();
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.values().for_each(|source| source(&mut collection));
        collection
    }
}
