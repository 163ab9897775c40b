//! Whether an object store is there at all.

use std::time::Duration;

use object_store::{Error, ObjectStoreExt};

use super::open::Opened;

/// A name that nothing has.
const NOTHING: &str = ".slateberg-nothing";

/// Whether an object store answers within this time, whatever it says. Writes nothing.
pub async fn answers(opened: &Opened, at_most: Duration) -> bool {
    let path = opened.path.clone().join(NOTHING);
    let asked = tokio::time::timeout(at_most, opened.object_store.head(&path)).await;
    // What fails without a reason of its own failed on the way, or met a store that cannot answer now.
    !matches!(asked, Err(_) | Ok(Err(Error::Generic { .. } | Error::JoinError { .. })))
}
