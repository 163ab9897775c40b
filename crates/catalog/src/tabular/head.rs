//! [`Head`]: the newest accepted state of a table or view, parsed.

use std::sync::Arc;

use uuid::Uuid;

use super::metadata::{TabularMetadata, metadata_of};
use crate::Result;
use crate::environment::Environment;
use crate::lookup::{self, FoundTabular};
use crate::version_cache::{CachedVersion, Version};
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;

/// The newest accepted state of a table or view.
pub(crate) struct Head<M> {
    /// The record of the table or view.
    pub(crate) record: TabularRecord,
    /// The parsed metadata.
    pub(crate) metadata: Arc<M>,
    /// The metadata as JSON.
    pub(crate) text: SegmentedJson,
}

impl Environment {
    /// Returns the newest accepted state of a table or view. `None` if it does not exist.
    pub(crate) async fn head<M: TabularMetadata>(
        &self,
        store: &impl StoreRead,
        id: Uuid,
    ) -> Result<Option<Head<M>>> {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let (record, cached) = match self.pipeline().versions.get((id, record.version)) {
            Some(cached) => (record, cached),
            None => {
                let found = lookup::tabular_by_id(store, id).await?;
                let Some(FoundTabular { record, document }) = found else { return Ok(None) };
                (record, CachedVersion { text: document.text, parsed: None })
            }
        };
        let metadata = self.parsed((id, record.version), &cached)?;
        Ok(Some(Head { record, metadata, text: cached.text }))
    }

    /// Returns the parsed metadata of a version. While the version is cached, its metadata is
    /// parsed only once.
    pub(crate) fn parsed<M: TabularMetadata>(
        &self,
        version: Version,
        cached: &CachedVersion,
    ) -> Result<Arc<M>> {
        if let Some(metadata) = cached.parsed.as_ref().and_then(M::from_parsed) {
            return Ok(Arc::clone(metadata));
        }
        let metadata = Arc::new(metadata_of::<M>(version.0, &cached.text)?);
        let parsed = Some(M::into_parsed(Arc::clone(&metadata)));
        let cached = CachedVersion { text: cached.text.clone(), parsed };
        self.pipeline().versions.insert(version, cached);
        Ok(metadata)
    }
}
