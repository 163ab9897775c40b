//! [`Response`]: the response of a mutation, which a repeated request with the same
//! `Idempotency-Key` gets again.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tabular::state::TabularState;
use crate::{Error, Result};
use slateberg_store::keys::PublicationKey;
use slateberg_store::records::MutationOutcome;

/// The response of a mutation.
pub(crate) trait Response: Sized + Send + 'static {
    /// Returns the part of the response that an idempotency record stores.
    fn outcome(&self) -> Result<MutationOutcome>;

    /// Returns the versions whose metadata files must exist before the response is replayed. Omits
    /// the versions that the outcome contains.
    fn publications(&self) -> Vec<PublicationKey> {
        Vec::new()
    }

    /// Restores the response from an idempotency record.
    fn from_replay(replay: Replay) -> Result<Self>;
}

/// The outcome from an idempotency record. For a table or view, it includes the current state.
pub(crate) enum Replay {
    /// A response without a body.
    Done,
    /// A small body.
    Body(Value),
    /// The state of a table or view.
    Tabular(TabularState),
}

/// A response with a small body.
#[derive(Debug, Clone)]
pub(crate) struct Body<T>(pub(crate) T);

/// The response of a transaction over tables.
pub(crate) struct TransactionResponse {
    /// The versions that the transaction wrote.
    pub(crate) publications: Vec<PublicationKey>,
}

fn mismatch() -> Error {
    Error::internal("an idempotency record contains the response of a different kind of request")
}

impl Response for () {
    fn outcome(&self) -> Result<MutationOutcome> {
        Ok(MutationOutcome::Done)
    }

    fn from_replay(replay: Replay) -> Result<Self> {
        match replay {
            Replay::Done => Ok(()),
            Replay::Body(_) | Replay::Tabular(_) => Err(mismatch()),
        }
    }
}

impl Response for TabularState {
    fn outcome(&self) -> Result<MutationOutcome> {
        match &self.metadata_location {
            Some(location) => {
                Ok(MutationOutcome::Tabular { id: self.id, metadata_location: location.clone() })
            }
            None => Err(Error::internal("a staged table has no response to replay")),
        }
    }

    fn from_replay(replay: Replay) -> Result<Self> {
        match replay {
            Replay::Tabular(state) => Ok(state),
            Replay::Done | Replay::Body(_) => Err(mismatch()),
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Response for Body<T> {
    fn outcome(&self) -> Result<MutationOutcome> {
        Ok(MutationOutcome::Body(serde_json::to_value(&self.0).map_err(Error::internal)?))
    }

    fn from_replay(replay: Replay) -> Result<Self> {
        match replay {
            Replay::Body(body) => serde_json::from_value(body).map(Self).map_err(Error::internal),
            Replay::Done | Replay::Tabular(_) => Err(mismatch()),
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Response for Option<Body<T>> {
    fn outcome(&self) -> Result<MutationOutcome> {
        self.as_ref().map_or(Ok(MutationOutcome::Done), Body::outcome)
    }

    fn from_replay(replay: Replay) -> Result<Self> {
        match replay {
            Replay::Done => Ok(None),
            body => Body::from_replay(body).map(Some),
        }
    }
}

impl Response for TransactionResponse {
    fn outcome(&self) -> Result<MutationOutcome> {
        Ok(MutationOutcome::Done)
    }

    fn publications(&self) -> Vec<PublicationKey> {
        self.publications.clone()
    }

    fn from_replay(replay: Replay) -> Result<Self> {
        <()>::from_replay(replay).map(|()| Self { publications: Vec::new() })
    }
}
