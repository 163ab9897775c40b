//! [`Turns`]: changes of something that are made one after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::{Error, Result};

/// The turns of those who change something.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<()>>);

/// One's turn. It ends when this is dropped.
pub(super) struct Turn {
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits until it is one's turn, for at most so long. `busy` is what is told to whoever comes too late.
    pub(super) async fn wait(&self, at_most: Duration, busy: &str) -> Result<Turn> {
        let turn = timeout(at_most, Arc::clone(&self.0).lock_owned()).await;
        let turn = turn.map_err(|late| Error::unavailable(busy, late))?;
        Ok(Turn { _guard: turn })
    }
}
