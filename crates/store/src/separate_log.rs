//! Checks that a store and its separate write-ahead log belong together. A separate log is not in
//! the object store that contains the rest of the store.
//!
//! A process that opened the store without its log, or with the log of another store, would lose
//! the records that are only in the log. Therefore the store and the log each contain an object
//! with the locations of both and a unique id. These two objects are created before the store. The
//! object in the log is created first. Neither object ever changes, because the location of the log
//! is fixed when a store is created. SlateDB itself does not record that location.
//!
//! Two processes that open the same new store at the same time may have different settings. A
//! process without a separate log writes a log file to the store before it checks again for the two
//! objects. A process that creates the objects checks for log files afterwards. So at least one of
//! the processes detects the other one, and fails.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use slatedb::admin::Admin;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
};
use uuid::Uuid;

use super::error::Error;
pub use super::location::Log;
use super::location::StoreLocation;
use slateberg_base::error_chain::Cause;
use slateberg_wal::bucket;

/// Name of the object, in the store and in the log.
const FILE: &str = "log-pair.json";

/// Content of the object, which is the same in the store and in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LogPair {
    id: Uuid,
    state_url: String,
    log_url: String,
}

/// Rejects wrong settings for the log of a store: they name a log that does not belong to the
/// store, or they name no log although the store has a separate one. Writes nothing. A writer has
/// to check again after it has opened the store.
pub(super) async fn check(location: &StoreLocation) -> Result<(), Error> {
    match (read(&location.object_store, location).await?, &location.log) {
        (None, None) => Ok(()),
        (Some(pair), None) => Err(Error::LogElsewhere(pair.log_url)),
        (Some(pair), Some(log)) => match read(&log.store(), location).await? {
            Some(other) if other.id != pair.id => Err(other_log(&pair, log)),
            None => Err(other_log(&pair, log)),
            Some(_) if has_log(&location.object_store, location).await? => {
                Err(Error::LogInStore(log.url.clone()))
            }
            Some(_) => Ok(()),
        },
        (None, Some(log)) => Err(Error::LogInStore(log.url.clone())),
    }
}

/// Checks the log before anything is written. For a new store, creates the pair of objects.
pub(super) async fn ensure_pair(location: &StoreLocation) -> Result<(), Error> {
    let Some(log) = &location.log else { return check(location).await };
    if read(&location.object_store, location).await?.is_none() {
        if store_exists(location).await? {
            return Err(Error::LogInStore(log.url.clone()));
        }
        create_pair(location, log).await?;
    }
    check(location).await
}

/// Creates both objects, or completes an earlier attempt.
async fn create_pair(location: &StoreLocation, log: &Log) -> Result<(), Error> {
    let new_pair =
        LogPair { id: log.id, state_url: log.state_url.clone(), log_url: log.url.clone() };
    let stored = create(&log.store(), location, &new_pair).await?;
    let is_new = stored.state_url == log.state_url && !has_log(&log.store(), location).await?;
    if !is_new {
        return Err(Error::LogOfAnother { given: log.url.clone(), state: stored.state_url });
    }
    create(&location.object_store, location, &stored).await.map(|_| ())
}

fn other_log(pair: &LogPair, log: &Log) -> Error {
    Error::OtherLog { own: pair.log_url.clone(), given: log.url.clone() }
}

fn file(location: &StoreLocation) -> Path {
    Path::from(location.path.as_str()).join(FILE)
}

async fn read(
    store: &Arc<dyn ObjectStore>,
    location: &StoreLocation,
) -> Result<Option<LogPair>, Error> {
    let path = file(location);
    let content = match store.get(&path).await {
        Ok(found) => found.bytes().await,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => Err(error),
    };
    let content = content.map_err(Error::unavailable)?;
    let pair = serde_json::from_slice(&content);
    pair.map(Some)
        .map_err(|error| Error::Corrupt { key: path.to_string(), source: Cause::new(error) })
}

/// Creates the object if it does not exist, and returns the content of the stored object.
async fn create(
    store: &Arc<dyn ObjectStore>,
    location: &StoreLocation,
    pair: &LogPair,
) -> Result<LogPair, Error> {
    let json = serde_json::to_vec(pair).map_err(Error::internal)?;
    let payload = PutPayload::from(Bytes::from(json));
    match store.put_opts(&file(location), payload, PutMode::Create.into()).await {
        Ok(_) => return Ok(pair.clone()),
        Err(StoreError::AlreadyExists { .. }) => {}
        Err(error) => return Err(Error::unavailable(error)),
    }
    let found = read(store, location).await?;
    found.ok_or_else(|| {
        Error::unavailable(format!("{} existed a moment ago, but no longer exists", file(location)))
    })
}

/// Whether a store has written log files to this object store. Each start leaves at least one log
/// file.
async fn has_log(store: &Arc<dyn ObjectStore>, location: &StoreLocation) -> Result<bool, Error> {
    let files = bucket::directory(&Path::from(location.path.as_str()));
    let first = store.list(Some(&files)).try_next().await;
    Ok(first.map_err(Error::unavailable)?.is_some())
}

/// Whether the store has a manifest.
async fn store_exists(location: &StoreLocation) -> Result<bool, Error> {
    let admin = Admin::builder(location.path.clone(), Arc::clone(&location.object_store)).build();
    Ok(admin.read_manifest(None).await?.is_some())
}

#[cfg(test)]
mod tests;
