//! Replay of responses: a repeated request with the same `Idempotency-Key` gets the response of the
//! first request.
//!
//! The record is written in the same batch as the change, so neither exists without the other.
//! Final rejections are recorded too. Errors that a retry may resolve (5xx, missing permissions)
//! are not.

use super::Pipeline;
use super::records::idempotency_key;
use super::response::{Replay, Response};
use crate::core::Core;
use crate::operation::Idempotency;
use crate::tabular::state::TabularState;
use crate::tabular::target::Target;
use crate::{Error, Operation, Result, lookup};
use slateberg_authz::action::Load;
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects::metadata_file;
use slateberg_store::keys::PublicationKey;
use slateberg_store::read::Read;
use slateberg_store::records::{Outcome, TabularRecord};

impl Pipeline {
    /// Writes the idempotency record of a final rejection, which has no transaction of its own.
    pub(super) async fn remember_refusal(
        &self,
        operation: &Operation,
        refusal: &Error,
    ) -> Result<()> {
        let Some(idempotency) = &operation.idempotency else { return Ok(()) };
        let Some((kind, message)) = refusal_parts(refusal) else { return Ok(()) };
        let outcome = Outcome::Refused { kind: kind.to_owned(), message };
        let record = &self.idempotency_record(idempotency, outcome);
        let key = &idempotency_key(operation, idempotency);
        let permit = Permit::for_task(Task::Idempotency);
        let remembering = async {
            let ((), accepted) = self
                .store
                .transact("remember_refusal", &permit, |t| async move {
                    t.put(key, record)?;
                    Ok::<_, Error>(())
                })
                .await?;
            Ok::<_, Error>(accepted.durable().await?)
        };
        match tokio::time::timeout(self.deadline, remembering).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::unavailable("The catalog's store does not answer", error)),
            Err(late) => Err(Error::unavailable("The catalog's store does not answer", late)),
        }
    }

    /// Waits until the metadata file of a version exists. On expiry the outcome of the first
    /// request is still unknown, so the error must not claim that nothing was written.
    async fn published(&self, key: PublicationKey) -> Result<()> {
        self.pending.wait(key, self.deadline).await.map_err(Error::unknown)
    }
}

impl Core {
    /// Returns the response that an earlier request with this key got, if any.
    ///
    /// The record is read from the accepted state, because the first request may have ended with an
    /// unknown outcome while its change is still pending. The replay waits until that change is
    /// durable and its metadata files exist.
    pub(super) async fn replay<T: Response>(
        &self,
        operation: &Operation,
        idempotency: &Idempotency,
    ) -> Result<Option<Result<T>>> {
        let key = idempotency_key(operation, idempotency);
        let record = self.store().latest().get(&key).await?;
        let Some(record) = record.filter(|record| record.expires_ms > self.now_ms()) else {
            return Ok(None);
        };
        match tokio::time::timeout(self.settings().commit_deadline(), self.store().settled()).await
        {
            Ok(settled) => settled?,
            Err(late) => return Err(Error::unknown(late)),
        }
        if record.fingerprint != idempotency.fingerprint {
            return Ok(Some(Err(Error::Unprocessable(format!(
                "Idempotency-Key {} was used for another request",
                idempotency.key
            )))));
        }
        for publication in record.publications {
            self.pipeline().published(publication).await?;
        }
        let replay = match record.outcome {
            Outcome::Done => Replay::Done,
            Outcome::Body(body) => Replay::Body(body),
            Outcome::Tabular { id, metadata_location } => {
                match self.replay_tabular(operation, id, metadata_location).await {
                    Ok(state) => Replay::Tabular(state),
                    Err(error) => return Ok(Some(Err(error))),
                }
            }
            Outcome::Refused { kind, message } => {
                return Ok(Some(Err(refusal_from(&kind, message))));
            }
        };
        Ok(Some(T::from_replay(replay)))
    }

    /// Returns the current state of a table or view if the caller may load it. If it was dropped,
    /// returns the state of the first response.
    async fn replay_tabular(
        &self,
        operation: &Operation,
        id: uuid::Uuid,
        metadata_location: String,
    ) -> Result<TabularState> {
        let store = self.store().durable();
        if let Some(found) = lookup::tabular_by_id(&store, id).await? {
            self.permit_replay(operation, &found.record).await?;
            let version = found.record.version;
            self.pipeline().published(PublicationKey { id, version }).await?;
            return Ok(TabularState::from(found));
        }
        let objects = self.objects();
        for warehouse in self.warehouses().ids() {
            if objects.check(warehouse, &metadata_location).is_ok() {
                let json = metadata_file::read(&objects, warehouse, &metadata_location).await?;
                return Ok(TabularState {
                    id,
                    version: 0,
                    metadata_location: Some(metadata_location),
                    text: json.into_parts().0.into(),
                });
            }
        }
        Err(Error::NoSuchFile(format!("Failed to open input stream for file: {metadata_location}")))
    }

    async fn permit_replay(
        &self,
        operation: &Operation,
        record: &TabularRecord,
    ) -> Result<Permit<Load>> {
        let store = self.store().durable();
        let ident = &lookup::ident_of(&store, record).await?;
        let kind = record.kind;
        let warehouse = self.warehouses().by_id(record.warehouse);
        let warehouse = &*warehouse.ok_or_else(|| Error::no_such(kind, ident))?;
        self.access.permit_tabular(&store, operation, Target { warehouse, kind, ident }).await
    }
}

macro_rules! refusals {
    (
        remembered { $($variant:ident = $code:literal)* }
        forgotten { $($forgotten:pat_param)|+ }
    ) => {
        /// Returns the code and the message of a rejection that is recorded.
        fn refusal_parts(refusal: &Error) -> Option<(&'static str, String)> {
            match refusal {
                $(Error::$variant(text) => Some(($code, text.clone())),)*
                $($forgotten)|+ => None,
            }
        }

        fn refusal_from(code: &str, text: String) -> Error {
            match code {
                $($code => Error::$variant(text),)*
                other => Error::internal(format!("a record has a refusal of an unknown kind: {other}")),
            }
        }
    };
}

// The codes are part of the store's format: a code that was ever written keeps its meaning.
refusals! {
    remembered {
        NoSuchWarehouse = "NoSuchWarehouse"
        NoSuchNamespace = "NoSuchNamespace"
        NoSuchTable = "NoSuchTable"
        NoSuchView = "NoSuchView"
        NoSuchFile = "NoSuchFile"
        NoSuchJob = "NoSuchJob"
        NoSuchPolicy = "NoSuchPolicy"
        NoSuchCheckpoint = "NoSuchCheckpoint"
        AlreadyExists = "AlreadyExists"
        NamespaceNotEmpty = "NamespaceNotEmpty"
        WarehouseNotEmpty = "WarehouseNotEmpty"
        Conflict = "Conflict"
        CommitFailed = "CommitFailed"
        Invalid = "Invalid"
        Unprocessable = "Unprocessable"
    }
    // `Forbidden` is not recorded, because the client may be granted the missing permission later.
    forgotten {
        Error::Forbidden(_)
        | Error::Unusable(_)
        | Error::CommitStateUnknown { .. }
        | Error::Unavailable { .. }
        | Error::Internal { .. }
    }
}

#[cfg(test)]
mod tests;
