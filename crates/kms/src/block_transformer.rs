//! Under SlateDB: seals each block of the log and of sorted runs, with indexes, filters and statistics.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use slatedb::BlockTransformer;

use super::error::Error;
use super::keys::{Keys, OVERHEAD, Purpose};

/// Seals and opens blocks with the keys of an open store.
pub struct SealedBlocks {
    keys: Arc<Keys>,
    /// Those of the store that this one is a clone of: they open, and never seal.
    inherited: Option<Arc<Keys>>,
}

impl SealedBlocks {
    /// With these keys and, in a clone, those of its parent. No number is in both.
    pub fn new(keys: Arc<Keys>, inherited: Option<Arc<Keys>>) -> Self {
        Self { keys, inherited }
    }
}

#[async_trait]
impl BlockTransformer for SealedBlocks {
    async fn encode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        let sealed = self.keys.seal(Purpose::Block, &data).map_err(told)?;
        Ok(Bytes::from(sealed))
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        let inherited = self.inherited.as_ref().filter(|inherited| inherited.knows(&data));
        let keys = inherited.unwrap_or(&self.keys);
        let opened = keys.open(Purpose::Block, &data).map_err(told)?;
        Ok(Bytes::from(opened))
    }

    fn encoded_overhead(&self) -> usize {
        OVERHEAD
    }
}

/// SlateDB says no more of this than that a transformation has failed: the log is where the reason is told.
fn told(error: Error) -> slatedb::Error {
    tracing::error!(%error, "a block of the store cannot be sealed or opened");
    slatedb::Error::data(error.to_string()).with_source(Box::new(error))
}
