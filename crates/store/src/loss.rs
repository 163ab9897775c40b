//! Accepts the loss of the changes at the damaged end of a journal. This is for an operator who has
//! no copy of the journal.

use super::checkpoints::admin;
use super::encryption::{IfMissing, unlock};
use super::error::Error;
use super::handle::Store;
use super::location::StoreLocation;
use slateberg_base::boxed;
use slateberg_wal::{self as journal, Journal};

/// An accepted loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The last frame that was acknowledged. `None` if the mark of the journal was damaged or
    /// missing.
    pub acknowledged: Option<u64>,
    /// The last frame that still exists.
    pub left: u64,
}

impl Store {
    /// Returns the reason why the journal of a store cannot be used, or `None` if it can be used.
    /// Writes nothing.
    #[boxed]
    pub async fn find_loss(location: &StoreLocation) -> Result<Option<String>, Error> {
        let (location, unlocked) = unlock(location, IfMissing::Reject).await?;
        let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
        let directory = location.directory.as_ref().ok_or(Error::NoJournal)?;
        let checked = journal::check(directory, replayed(&location).await?, keys)?;
        Ok(checked.damaged.map(|file| file.to_string()))
    }

    /// Gives up the acknowledged changes that are missing at the end of a store's journal. The next
    /// start then serves the remaining changes. Errors if the journal is damaged before its end.
    #[boxed]
    pub async fn accept_loss(location: &StoreLocation) -> Result<AcceptedLoss, Error> {
        let (location, unlocked) = unlock(location, IfMissing::Reject).await?;
        let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
        let directory = location.directory.as_ref().ok_or(Error::NoJournal)?;
        let journal = Journal::open(directory)?;
        let (acknowledged, left) = journal.accept_loss(replayed(&location).await?, keys)?;
        Ok(AcceptedLoss { acknowledged, left })
    }
}

/// Returns the last frame whose records are in sorted runs.
pub(super) async fn replayed(location: &StoreLocation) -> Result<u64, Error> {
    let manifest = admin(location).read_manifest(None).await?;
    Ok(manifest.map_or(0, |manifest| manifest.replay_after_wal_id()))
}
