//! Trying a place out before a warehouse is made of it: a file of its own is written, as metadata files are,
//! read back, found in a listing, and deleted.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use uuid::Uuid;

use super::open::Opened;

/// What the directory of a probe's file is called, before its id.
const DIRECTORY: &str = ".slateberg-probe-";
const FILE: &str = "probe";
const CONTENT: &[u8] = b"slateberg has tried whether it can write here; this file may be deleted\n";

/// Why a place is no good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {step} a probe file: {reason}")]
pub struct ProbeError {
    /// What did not succeed.
    pub step: &'static str,
    /// What the object store said.
    pub reason: String,
}

/// Tries a place out, for at most so long. `id` keeps two tries apart. Whatever goes wrong, the file that was
/// written is deleted again as far as that can be done.
pub async fn probe(opened: &Opened, id: Uuid, at_most: Duration) -> Result<(), ProbeError> {
    let name = format!("{DIRECTORY}{}", id.simple());
    let directory = opened.path.clone().join(name.as_str());
    let file = directory.clone().join(FILE);
    let mut step = "write";
    let tried = try_out(&*opened.object_store, &directory, &file, &mut step);
    let outcome = match tokio::time::timeout(at_most, tried).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {} seconds", at_most.as_secs())),
    };
    if outcome.is_err() && step != "write" {
        let gone = tokio::time::timeout(at_most, opened.object_store.delete(&file)).await;
        if !matches!(gone, Ok(Ok(()) | Err(object_store::Error::NotFound { .. }))) {
            tracing::warn!(%file, "a probe file is left");
        }
    }
    // Directories of a file system stay when they are empty. There may be none.
    if let Some(local) = &opened.directory {
        let _ = std::fs::remove_dir(local.join(&name));
    }
    outcome.map_err(|reason| ProbeError { step, reason })
}

async fn try_out(
    store: &dyn ObjectStore,
    directory: &Path,
    file: &Path,
    step: &mut &'static str,
) -> Result<(), String> {
    let said = |error: object_store::Error| error.to_string();
    let create = || {
        let payload = PutPayload::from(Bytes::from_static(CONTENT));
        store.put_opts(file, payload, PutOptions::from(PutMode::Create))
    };
    create().await.map_err(said)?;
    *step = "read";
    let read = store.get(file).await.map_err(said)?.bytes().await.map_err(said)?;
    if read != CONTENT {
        return Err("it holds something else than was written".to_owned());
    }
    *step = "protect";
    match create().await {
        Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(said(error)),
        Ok(_) => {
            return Err(
                "the store overwrites a file that is to be written once (put-if-absent)".to_owned()
            );
        }
    }
    *step = "list";
    let mut listed = store.list(Some(directory));
    match listed.try_next().await.map_err(said)? {
        Some(found) if found.location == *file => {}
        Some(found) => return Err(format!("the listing shows {} instead", found.location)),
        None => return Err("the listing does not show it".to_owned()),
    }
    *step = "delete";
    store.delete(file).await.map_err(said)
}
