//! Reads a store without opening it for writing: its current state, or a checkpoint.

use std::sync::Arc;

use slatedb::config::DbReaderOptions;
use slatedb::{DbReader, DbReaderMode};
use uuid::Uuid;

use super::builder::sealed_blocks;
use super::checkpoints::{self, Checkpoint};
use super::encryption::{Missing, unlock};
use super::error::Error;
use super::explanation::explained;
use super::handle::Store;
use super::location::Place;
use super::read::Offline;
use super::separate_log;
use slateberg_wal as journal;

impl Store {
    /// Opens the current state of the store for reading. Writes nothing.
    pub async fn open_offline(place: &Place) -> Result<Offline, Error> {
        let (plain, (place, unlocked)) = (place, unlock(place, Missing::Refuse).await?);
        let keys = unlocked.as_ref().map(|unlocked| &unlocked.keys);
        separate_log::check(&place).await?;
        let options = DbReaderOptions {
            manifest_poll_interval: checkpoints::NEVER,
            ..DbReaderOptions::default()
        };
        let builder = DbReader::builder(place.path.clone(), Arc::clone(&place.object_store))
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options);
        let builder = match &place.log {
            Some(log) => builder.with_wal_object_store(log.store()),
            None => builder,
        };
        let builder = match &unlocked {
            Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
            None => builder,
        };
        let reader = |directory| journal::reader(directory, keys.cloned());
        let journal = place.directory.as_deref().map(reader).transpose()?.flatten();
        let builder = match journal {
            Some(journal) => builder.with_wal_reader(journal),
            None => builder,
        };
        match builder.build().await {
            Ok(reader) => Ok(Offline { reader }),
            Err(error) => Err(explained(plain, unlocked.as_ref(), error).await),
        }
    }

    /// Returns the checkpoints of a store without opening it, the oldest first.
    pub async fn checkpoints_offline(place: &Place, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
        let (place, _) = unlock(place, Missing::Refuse).await?;
        checkpoints::listed(&place, now_ms).await
    }

    /// Opens a checkpoint for reading. Works while a server runs.
    pub async fn open_checkpoint(place: &Place, id: Uuid) -> Result<Offline, Error> {
        let (plain, (place, unlocked)) = (place, unlock(place, Missing::Refuse).await?);
        match checkpoints::read_at(&place, unlocked.as_ref(), id).await {
            Ok(reader) => Ok(reader),
            Err(error) => Err(explained(plain, unlocked.as_ref(), error).await),
        }
    }
}
