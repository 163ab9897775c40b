//! Reads a store without opening it for writing: its current state, or the state of a checkpoint.

use std::sync::Arc;

use slatedb::config::DbReaderOptions;
use slatedb::{DbReader, DbReaderMode};
use uuid::Uuid;

use super::builder::{bucket_log, sealed_blocks};
use super::checkpoints::{self, Checkpoint};
use super::encryption::{IfMissing, unlock};
use super::error::Error;
use super::explanation::explain;
use super::filters;
use super::handle::Store;
use super::location::StoreLocation;
use super::read::OfflineView;
use super::separate_log;
use slateberg_base::boxed;
use slateberg_wal as journal;

impl Store {
    /// Opens the current state of the store for reading. Writes nothing.
    #[boxed]
    pub async fn open_offline(location: &StoreLocation) -> Result<OfflineView, Error> {
        let (raw_location, (location, unlocked)) =
            (location, unlock(location, IfMissing::Reject).await?);
        let keys = unlocked.as_ref().map(|unlocked| &unlocked.keys);
        separate_log::check(&location).await?;
        let options = DbReaderOptions {
            manifest_poll_interval: checkpoints::NO_MANIFEST_POLL,
            ..DbReaderOptions::default()
        };
        let builder = DbReader::builder(location.path.clone(), Arc::clone(&location.object_store))
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options)
            .with_filter_policies(filters::policies());
        let builder = match &location.log {
            Some(log) => builder.with_wal_object_store(log.store()),
            None => builder,
        };
        let builder = match &unlocked {
            Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
            None => builder,
        };
        let reader = |directory| journal::reader(directory, keys.cloned());
        let journal = location.directory.as_deref().map(reader).transpose()?.flatten();
        let log = journal.unwrap_or_else(|| bucket_log(&location, unlocked.as_ref()).into_reader());
        match builder.with_wal_reader(log).build().await {
            Ok(reader) => Ok(OfflineView { reader }),
            Err(error) => Err(explain(raw_location, unlocked.as_ref(), error).await),
        }
    }

    /// Returns the checkpoints of a store without opening it, the oldest first.
    #[boxed]
    pub async fn checkpoints_offline(
        location: &StoreLocation,
        now_ms: i64,
    ) -> Result<Vec<Checkpoint>, Error> {
        let (location, _) = unlock(location, IfMissing::Reject).await?;
        checkpoints::list_checkpoints(&location, now_ms).await
    }

    /// Opens a checkpoint for reading. A server may be using the store at the same time.
    #[boxed]
    pub async fn open_checkpoint(location: &StoreLocation, id: Uuid) -> Result<OfflineView, Error> {
        let (raw_location, (location, unlocked)) =
            (location, unlock(location, IfMissing::Reject).await?);
        match checkpoints::open_view(&location, unlocked.as_ref(), id).await {
            Ok(reader) => Ok(reader),
            Err(error) => Err(explain(raw_location, unlocked.as_ref(), error).await),
        }
    }
}
