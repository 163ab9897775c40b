//! Accepts the loss of changes, for an operator who has no copy of the end of a journal.

use super::checkpoints::admin;
use super::encryption::{Missing, unlock};
use super::error::Error;
use super::handle::Store;
use super::location::Place;
use slateberg_wal::{self as journal, Journal};

/// An accepted loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The last frame that was acknowledged. `None` if the mark of the journal was damaged or
    /// missing.
    pub acknowledged: Option<u64>,
    /// The last remaining frame.
    pub left: u64,
}

impl Store {
    /// Returns the reason why the journal of a store cannot be used, without writing. `None` if it
    /// can.
    pub async fn find_loss(place: &Place) -> Result<Option<String>, Error> {
        let (place, unlocked) = unlock(place, Missing::Refuse).await?;
        let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
        let directory = place.directory.as_ref().ok_or(Error::NoJournal)?;
        let checked = journal::check(directory, replayed(&place).await?, keys)?;
        Ok(checked.damaged.map(|file| file.to_string()))
    }

    /// Gives up the acknowledged changes that are missing at the end of a store's journal, so that
    /// the next start serves the rest. Errors for damage before the end.
    pub async fn accept_loss(place: &Place) -> Result<AcceptedLoss, Error> {
        let (place, unlocked) = unlock(place, Missing::Refuse).await?;
        let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
        let directory = place.directory.as_ref().ok_or(Error::NoJournal)?;
        let journal = Journal::open(directory)?;
        let (acknowledged, left) = journal.accept_loss(replayed(&place).await?, keys)?;
        Ok(AcceptedLoss { acknowledged, left })
    }
}

/// Returns the last frame whose records are in sorted runs.
pub(super) async fn replayed(place: &Place) -> Result<u64, Error> {
    let manifest = admin(place).read_manifest(None).await?;
    Ok(manifest.map_or(0, |manifest| manifest.replay_after_wal_id()))
}
