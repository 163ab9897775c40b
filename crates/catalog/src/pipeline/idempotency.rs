//! Replays responses: a repeated request with the same `Idempotency-Key` gets the response of the
//! first request.
//!
//! The idempotency record is written in the same transaction as the change, so neither exists
//! without the other. Final rejections are recorded, too. Errors that a retry may resolve (5xx,
//! missing permissions) are not recorded.

use super::Pipeline;
use super::records::idempotency_key;
use super::response::{Replay, Response};
use crate::core::Core;
use crate::error::{Kind, MissingResource, RuleViolation};
use crate::operation::Idempotency;
use crate::tabular::state::TabularState;
use crate::tabular::target::Target;
use crate::{Error, Operation, Result, lookup};
use slateberg_authz::action::Load;
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects::metadata_file;
use slateberg_store::keys::PublicationKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{MutationOutcome, TabularRecord};

impl Pipeline {
    /// Writes the idempotency record of a final rejection. The record needs its own transaction,
    /// because a rejected change has no transaction.
    pub(super) async fn record_rejection(
        &self,
        operation: &Operation,
        refusal: &Error,
    ) -> Result<()> {
        let Some(idempotency) = &operation.idempotency else { return Ok(()) };
        let Some((code, message)) = recorded_rejection(refusal) else { return Ok(()) };
        let outcome = MutationOutcome::Refused { kind: code.to_owned(), message };
        let record = &self.idempotency_record(idempotency, outcome);
        let key = &idempotency_key(operation, idempotency);
        let permit = Permit::for_task(Task::Idempotency);
        let remembering = async {
            let ((), accepted) = self
                .store
                .transact("record_rejection", &permit, |t| async move {
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

    /// Waits until the metadata file of a version exists. If the wait takes too long, the outcome
    /// of the first request is still unknown. So the error must not claim that nothing was written.
    async fn published(&self, key: PublicationKey) -> Result<()> {
        self.pending.wait(key, self.deadline).await.map_err(Error::unknown)
    }
}

impl Core {
    /// Returns the response that an earlier request with this key got. `None` if there was no such
    /// request.
    ///
    /// The record is read from the accepted state: the first request may have ended with an unknown
    /// outcome, and its change may still be pending. The replay waits until that change is durable
    /// and its metadata files exist.
    pub(super) async fn replay<T: Response>(
        &self,
        operation: &Operation,
        idempotency: &Idempotency,
    ) -> Result<Option<T>> {
        let key = idempotency_key(operation, idempotency);
        let record = self.store().latest().get(&key).await?;
        let Some(record) = record.filter(|record| record.expires_ms > self.now_ms()) else {
            return Ok(None);
        };
        match tokio::time::timeout(self.settings().commit_deadline(), self.store().wait_durable())
            .await
        {
            Ok(settled) => settled?,
            Err(late) => return Err(Error::unknown(late)),
        }
        if record.fingerprint != idempotency.fingerprint {
            return Err(Error::Unprocessable(RuleViolation::ReusedIdempotencyKey(idempotency.key)));
        }
        for publication in record.publications {
            self.pipeline().published(publication).await?;
        }
        let replay = match record.outcome {
            MutationOutcome::Done => Replay::Done,
            MutationOutcome::Body(body) => Replay::Body(body),
            MutationOutcome::Tabular { id, metadata_location } => {
                Replay::Tabular(self.replay_tabular(operation, id, metadata_location).await?)
            }
            MutationOutcome::Refused { kind, message } => {
                return Err(rejection_from(&kind, &message));
            }
        };
        T::from_replay(replay).map(Some)
    }

    /// Returns the current state of a table or view if the caller may load it. If the table or view
    /// was dropped, returns the state of the first response.
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
        Err(Error::NotFound(MissingResource::File(metadata_location)))
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

/// Returns the code and the message that records contain for a rejection. `None` if the rejection
/// is not recorded.
fn recorded_rejection(refusal: &Error) -> Option<(&'static str, String)> {
    let (code, prefix) = rejection_code(refusal.kind())?;
    let message = refusal.to_string();
    Some((code, message.strip_prefix(prefix).unwrap_or(&message).to_owned()))
}

macro_rules! refusals {
    (
        remembered { $($variant:ident = $code:literal $(($prefix:literal))?)* }
        forgotten { $($forgotten:ident)* }
    ) => {
        /// Returns the code of a rejection in records, and the prefix that records omit from its
        /// message. `None` if the rejection is not recorded.
        fn rejection_code(kind: Kind) -> Option<(&'static str, &'static str)> {
            match kind {
                $(Kind::$variant => Some(($code, concat!($($prefix)?))),)*
                $(Kind::$forgotten)|* => None,
            }
        }

        fn rejection_from(code: &str, message: &str) -> Error {
            match code {
                $($code => Error::Recorded {
                    kind: Kind::$variant,
                    message: format!(concat!($($prefix,)? "{}"), message),
                },)*
                other => Error::internal(format!("an idempotency record contains a rejection of an unknown kind: {other}")),
            }
        }
    };
}

// Codes and omitted prefixes are part of the store's format: never change the meaning of a code.
refusals! {
    remembered {
        NoSuchWarehouse = "NoSuchWarehouse" ("Warehouse does not exist: ")
        NoSuchNamespace = "NoSuchNamespace" ("Namespace does not exist: ")
        NoSuchTable = "NoSuchTable" ("Table does not exist: ")
        NoSuchView = "NoSuchView" ("View does not exist: ")
        NoSuchFunction = "NoSuchFunction" ("Function does not exist: ")
        NoSuchFile = "NoSuchFile"
        NoSuchJob = "NoSuchJob" ("Job does not exist: ")
        NoSuchPolicy = "NoSuchPolicy"
        NoSuchCheckpoint = "NoSuchCheckpoint" ("Checkpoint does not exist: ")
        NoSuchProtection = "NoSuchProtection" ("Protection does not exist: ")
        NoSuchWebhook = "NoSuchWebhook" ("Webhook does not exist: ")
        NoSuchCursor = "NoSuchCursor" ("Cursor does not exist: ")
        NoSuchDropped = "NoSuchDropped" ("Dropped namespace, table or view does not exist: ")
        AlreadyExists = "AlreadyExists"
        NamespaceNotEmpty = "NamespaceNotEmpty"
        WarehouseNotEmpty = "WarehouseNotEmpty"
        Conflict = "Conflict"
        CommitFailed = "CommitFailed"
        Invalid = "Invalid"
        Unprocessable = "Unprocessable"
    }
    // `Forbidden` is not recorded, because the client may be granted the missing permission later.
    // `PositionGone` cannot occur, because mutations contain no positions in the change feed.
    forgotten {
        NoSuchPlan
        NoSuchPlanTask
        Validation
        NotPlannable
        Forbidden
        PositionGone
        Unusable
        CommitStateUnknown
        Unavailable
        Internal
    }
}

#[cfg(test)]
mod tests;
