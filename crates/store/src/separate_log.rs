//! A write-ahead log in another object store than the rest, and how the two are kept together.
//!
//! What is in the log alone is lost to whoever opens the store without it, and to whoever opens it with
//! another one. So each side has an object that names the other by an id that no other pair has. They are
//! made before the store is, the log's first, and never changed: where the log is, is decided when a store is
//! made. SlateDB itself keeps no record of it.
//!
//! Two first starts at once could disagree. Whoever opens without such a log leaves a file of the log beside
//! the rest before it looks for the pair once more; whoever has made the pair looks for such files then. So
//! one of them sees the other, and ends.

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

/// The object, on either side.
const FILE: &str = "log-pair.json";

/// What the objects hold: both the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    id: Uuid,
    state_url: String,
    log_url: String,
}

/// Refuses to open a store with another log than its own, or without its own. Reads only. Whoever has opened
/// the store for writing has to ask once more.
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

/// The same for whoever is about to write; makes the pair of a store that is new.
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

/// Makes both objects, or takes over what an earlier try has made of them.
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

/// Writes the object, unless it is there; returns what is there.
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

/// Whether there are log files here that a store has written. Each opening writes one that stays.
async fn has_log(store: &Arc<dyn ObjectStore>, place: &Place) -> Result<bool, Error> {
    let files = Path::from(place.path.as_str()).join("wal");
    let first = store.list(Some(&files)).try_next().await;
    Ok(first.map_err(Error::unavailable)?.is_some())
}

/// Whether there is a store.
async fn is_made(place: &Place) -> Result<bool, Error> {
    let admin = Admin::builder(place.path.clone(), Arc::clone(&place.object_store)).build();
    Ok(admin.read_manifest(None).await?.is_some())
}

#[cfg(test)]
mod tests;
