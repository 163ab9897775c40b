//! [`SealedBlocks`]: a block transformer for SlateDB. It seals each block of the log and of sorted
//! runs, including indexes, filters and statistics.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use slatedb::BlockTransformer;

use super::error::Error;
use super::keys::{Keys, OVERHEAD, Purpose};

/// Seals and opens blocks with the keys of an open store.
pub struct SealedBlocks {
    keys: Arc<Keys>,
    /// The keys of a clone's parent. They open blocks and never seal them.
    inherited: Option<Arc<Keys>>,
}

impl SealedBlocks {
    /// Creates the transformer with the store's keys and, in a clone, also with the keys of its
    /// parent. No two keys of these stores may have the same number.
    pub fn new(keys: Arc<Keys>, inherited: Option<Arc<Keys>>) -> Self {
        Self { keys, inherited }
    }
}

#[async_trait]
impl BlockTransformer for SealedBlocks {
    async fn encode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        let sealed = self.keys.seal(Purpose::Block, &data).map_err(into_slatedb_error)?;
        Ok(Bytes::from(sealed))
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        let inherited = self.inherited.as_ref().filter(|inherited| inherited.knows(&data));
        let keys = inherited.unwrap_or(&self.keys);
        let opened = keys.open(Purpose::Block, &data).map_err(into_slatedb_error)?;
        Ok(Bytes::from(opened))
    }

    fn encoded_overhead(&self) -> usize {
        OVERHEAD
    }
}

/// Logs the reason, because SlateDB only reports that a transformation failed.
fn into_slatedb_error(error: Error) -> slatedb::Error {
    tracing::error!(%error, "cannot encrypt or decrypt a block of the store");
    slatedb::Error::data(error.to_string()).with_source(Box::new(error))
}
