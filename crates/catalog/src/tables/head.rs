//! A table as a commit finds it: its newest accepted state, parsed.

use std::sync::Arc;

use uuid::Uuid;

use crate::lookup::{self, Found};
use crate::version_cache::{Cached, Version};
use crate::{Catalog, Error, Result};
use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::Read;
use slateberg_store::records::TabularRecord;

/// A table as a commit finds it.
pub(crate) struct Head {
    /// Its record.
    pub(crate) record: TabularRecord,
    /// Its metadata.
    pub(crate) metadata: Arc<TableMetadata>,
    /// The same as JSON.
    pub(super) text: Text,
}

impl Catalog {
    /// The accepted state of a table; none if it is gone.
    pub(crate) async fn head(&self, store: &impl Read, id: Uuid) -> Result<Option<Head>> {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let (record, cached) = match self.inner.versions.get((id, record.version)) {
            Some(cached) => (record, cached),
            None => {
                let found = lookup::tabular_by_id(store, id).await?;
                let Some(Found { record, document }) = found else { return Ok(None) };
                (record, Cached { text: document.text, metadata: None })
            }
        };
        let metadata = self.parsed((id, record.version), &cached)?;
        Ok(Some(Head { record, metadata, text: cached.text }))
    }

    /// The metadata of a table's version, which is parsed once as long as the version is kept.
    pub(crate) fn parsed(&self, version: Version, cached: &Cached) -> Result<Arc<TableMetadata>> {
        if let Some(metadata) = &cached.metadata {
            return Ok(Arc::clone(metadata));
        }
        let parsed = Arc::new(metadata_of(version.0, &cached.text)?);
        let cached = Cached { text: cached.text.clone(), metadata: Some(Arc::clone(&parsed)) };
        self.inner.versions.keep(version, cached);
        Ok(parsed)
    }
}

/// The metadata of a table that is in the catalog.
pub(crate) fn metadata_of(id: Uuid, text: &Text) -> Result<TableMetadata> {
    TableMetadata::from_text(text)
        .map_err(|refusal| Error::internal(format!("metadata of {id} cannot be read: {refusal}")))
}
