//! A table as a commit finds it: its newest accepted state, parsed.

use std::collections::HashSet;
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

/// Whether old metadata files are deleted once the metadata log drops them.
const DELETE_AFTER_COMMIT: &str = "write.metadata.delete-after-commit.enabled";

/// A table as a commit finds it.
pub(super) struct Head {
    /// Its record.
    pub(super) record: TabularRecord,
    /// Its metadata.
    pub(super) metadata: Arc<TableMetadata>,
    /// The same as JSON.
    pub(super) text: Text,
}

impl Catalog {
    /// The accepted state of a table; none if it is gone.
    pub(super) async fn head(&self, store: &impl Read, id: Uuid) -> Result<Option<Head>> {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let (record, cached) = match self.inner.versions.get((id, record.version)) {
            Some(cached) => (record, cached),
            None => {
                let found = lookup::tabular_by_id(store, id).await?;
                let Some(Found { record, document }) = found else { return Ok(None) };
                (record, Cached { text: document.text, metadata: None })
            }
        };
        let Cached { text, metadata: Some(metadata) } = cached else {
            let metadata = TableMetadata::from_text(&cached.text).map_err(|refusal| {
                Error::internal(format!("metadata of {id} cannot be read: {refusal}"))
            })?;
            let (metadata, text) = (Arc::new(metadata), cached.text);
            let cached = Cached { text: text.clone(), metadata: Some(Arc::clone(&metadata)) };
            self.inner.versions.keep((id, record.version), cached);
            return Ok(Some(Head { record, metadata, text }));
        };
        Ok(Some(Head { record, metadata, text }))
    }
}

/// The metadata files that the log named before and does not name any more, where the table wants them
/// deleted.
pub(super) fn outdated_files(before: &TableMetadata, after: &TableMetadata) -> Vec<String> {
    let wanted = after.properties.get(DELETE_AFTER_COMMIT);
    if !wanted.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Vec::new();
    }
    let kept: HashSet<_> = after.metadata_log.iter().map(|entry| &entry.metadata_file).collect();
    before
        .metadata_log
        .iter()
        .map(|entry| &entry.metadata_file)
        .filter(|file| !kept.contains(file))
        .map(|file| file.to_string())
        .collect()
}
