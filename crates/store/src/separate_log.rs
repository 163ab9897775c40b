//! A write-ahead log in another object store than the rest of the store, and the link between the
//! two.
//!
//! A process that opens the store without its log, or with another one, loses the records that are
//! only in the log. Each side therefore has an object that names the other by a unique id. Both are
//! created before the store, the log's first, and never change, because the location of the log is
//! fixed when a store is created. SlateDB itself has no record of it.
//!
//! Two concurrent first starts could disagree. A start without a separate log writes a log file in
//! the store before it checks for the pair again; a start that creates the pair checks for such
//! files afterwards. So at least one of them detects the other, and fails.

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
use super::location::Place;
use slateberg_base::error_chain::Cause;

/// Name of the object on both sides.
const FILE: &str = "log-pair.json";

/// Content of the objects, equal on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    id: Uuid,
    state_url: String,
    log_url: String,
}

/// Rejects a store with another log than its own, or without its own. Only reads. A writer has to
/// check again after it has opened the store.
pub(super) async fn check(place: &Place) -> Result<(), Error> {
    match (read(&place.object_store, place).await?, &place.log) {
        (None, None) => Ok(()),
        (Some(pair), None) => Err(Error::LogElsewhere(pair.log_url)),
        (Some(pair), Some(log)) => match read(&log.store(), place).await? {
            Some(other) if other.id != pair.id => Err(other_log(&pair, log)),
            None => Err(other_log(&pair, log)),
            Some(_) if has_log(&place.object_store, place).await? => {
                Err(Error::LogInStore(log.url.clone()))
            }
            Some(_) => Ok(()),
        },
        (None, Some(log)) => Err(Error::LogInStore(log.url.clone())),
    }
}

/// Checks the log before a write. Creates the pair of a new store.
pub(super) async fn settle(place: &Place) -> Result<(), Error> {
    let Some(log) = &place.log else { return check(place).await };
    if read(&place.object_store, place).await?.is_none() {
        if is_made(place).await? {
            return Err(Error::LogInStore(log.url.clone()));
        }
        make(place, log).await?;
    }
    check(place).await
}

/// Creates both objects, or completes an earlier attempt.
async fn make(place: &Place, log: &Log) -> Result<(), Error> {
    let wanted = Pair { id: log.id, state_url: log.state_url.clone(), log_url: log.url.clone() };
    let theirs = create(&log.store(), place, &wanted).await?;
    let is_new = theirs.state_url == log.state_url && !has_log(&log.store(), place).await?;
    if !is_new {
        return Err(Error::LogOfAnother { given: log.url.clone(), state: theirs.state_url });
    }
    create(&place.object_store, place, &theirs).await.map(|_| ())
}

fn other_log(pair: &Pair, log: &Log) -> Error {
    Error::OtherLog { own: pair.log_url.clone(), given: log.url.clone() }
}

fn file(place: &Place) -> Path {
    Path::from(place.path.as_str()).join(FILE)
}

async fn read(store: &Arc<dyn ObjectStore>, place: &Place) -> Result<Option<Pair>, Error> {
    let path = file(place);
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

/// Creates the object, unless it exists. Returns the existing one.
async fn create(store: &Arc<dyn ObjectStore>, place: &Place, pair: &Pair) -> Result<Pair, Error> {
    let json = serde_json::to_vec(pair).map_err(Error::internal)?;
    let payload = PutPayload::from(Bytes::from(json));
    match store.put_opts(&file(place), payload, PutMode::Create.into()).await {
        Ok(_) => return Ok(pair.clone()),
        Err(StoreError::AlreadyExists { .. }) => {}
        Err(error) => return Err(Error::unavailable(error)),
    }
    let found = read(store, place).await?;
    found.ok_or_else(|| Error::unavailable(format!("{} came and went", file(place))))
}

/// Whether a store has written log files here. Each opening writes one that stays.
async fn has_log(store: &Arc<dyn ObjectStore>, place: &Place) -> Result<bool, Error> {
    let files = Path::from(place.path.as_str()).join("wal");
    let first = store.list(Some(&files)).try_next().await;
    Ok(first.map_err(Error::unavailable)?.is_some())
}

/// Whether a store exists.
async fn is_made(place: &Place) -> Result<bool, Error> {
    let admin = Admin::builder(place.path.clone(), Arc::clone(&place.object_store)).build();
    Ok(admin.read_manifest(None).await?.is_some())
}

#[cfg(test)]
mod tests;
