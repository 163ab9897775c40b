//! A table as a commit finds it: its newest accepted state, parsed.

use std::sync::Arc;

use uuid::Uuid;

use crate::catalog::lookup::{self, Found};
use crate::catalog::version_cache::Cached;
use crate::catalog::{Catalog, Error, Result};
use crate::model::table::TableMetadata;
use crate::model::text::Text;
use crate::store::keys::TabularKey;
use crate::store::read::Read;
use crate::store::records::TabularRecord;

/// A table as a commit finds it.
pub(in crate::catalog) struct Head {
    /// Its record.
    pub(in crate::catalog) record: TabularRecord,
    /// Its metadata.
    pub(in crate::catalog) metadata: Arc<TableMetadata>,
    /// The same as JSON.
    pub(super) text: Text,
}

impl Catalog {
    /// The accepted state of a table; none if it is gone.
    pub(in crate::catalog) async fn head(
        &self,
        store: &impl Read,
        id: Uuid,
    ) -> Result<Option<Head>> {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let (record, cached) = match self.inner.versions.get((id, record.version)) {
            Some(cached) => (record, cached),
            None => {
                let found = lookup::tabular_by_id(store, id).await?;
                let Some(Found { record, document }) = found else { return Ok(None) };
                (record, Cached { text: document.text, metadata: None })
            }
        };
        let Cached { text, metadata } = cached;
        let metadata = match metadata {
            Some(metadata) => metadata,
            None => {
                let parsed = TableMetadata::from_text(&text).map_err(|refusal| {
                    Error::internal(format!("metadata of {id} cannot be read: {refusal}"))
                })?;
                let parsed = Arc::new(parsed);
                let cached = Cached { text: text.clone(), metadata: Some(Arc::clone(&parsed)) };
                self.inner.versions.keep((id, record.version), cached);
                parsed
            }
        };
        Ok(Some(Head { record, metadata, text }))
    }
}
