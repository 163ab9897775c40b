//! `Idempotency-Key`: a request that was answered is answered the same way again.
//!
//! The record is written in the same batch as the change, so that there is never one without the other.
//! Final refusals are remembered too; what may go better next time (5xx, and what needed a permit) is not.

use super::mutation::Answer;
use super::operation::Idempotency;
use super::permits::Target;
use super::tabulars::TabularState;
use super::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::action::Load;
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects::metadata_file;
use slateberg_store::keys::{IdempotencyKey, PublicationKey};
use slateberg_store::read::Read;
use slateberg_store::records::{IdempotencyRecord, Outcome, TabularRecord};
use slateberg_store::txn::Transaction;

impl Catalog {
    /// Remembers how a mutation ends, in its own transaction.
    pub(super) fn remember(
        &self,
        t: &Transaction,
        operation: &Operation,
        outcome: Outcome,
    ) -> Result<()> {
        self.remember_published(t, operation, outcome, Vec::new())
    }

    /// The same for a mutation that is told only once these metadata files are there.
    pub(super) fn remember_published(
        &self,
        t: &Transaction,
        operation: &Operation,
        outcome: Outcome,
        publications: Vec<PublicationKey>,
    ) -> Result<()> {
        if let Some(idempotency) = &operation.idempotency {
            let record = self.record(idempotency, outcome);
            let record = IdempotencyRecord { publications, ..record };
            t.put(&key(operation, idempotency), &record)?;
        }
        Ok(())
    }

    /// Remembers a final refusal, which has no transaction of its own.
    pub(super) async fn remember_refusal(
        &self,
        operation: &Operation,
        refusal: &Error,
    ) -> Result<()> {
        let Some(idempotency) = &operation.idempotency else { return Ok(()) };
        let Some((kind, message)) = refusal_parts(refusal) else { return Ok(()) };
        let outcome = Outcome::Refused { kind: kind.to_owned(), message };
        let record = &self.record(idempotency, outcome);
        let key = &key(operation, idempotency);
        let permit = Permit::for_task(Task::Idempotency);
        let remembering = async {
            let ((), accepted) = self
                .store()
                .transact("remember_refusal", &permit, |t| async move {
                    t.put(key, record)?;
                    Ok::<_, Error>(())
                })
                .await?;
            Ok::<_, Error>(accepted.durable().await?)
        };
        match tokio::time::timeout(self.settings().commit_deadline(), remembering).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::unavailable("The catalog's store does not answer", error)),
            Err(late) => Err(Error::unavailable("The catalog's store does not answer", late)),
        }
    }

    /// The answer that this key was given before, if it was.
    ///
    /// The record is looked for in the accepted state, because the first request may have been told
    /// that its outcome is unknown while its change is still on its way; the answer waits until it is
    /// durable, and until the metadata files are there that it promises.
    pub(super) async fn replay(
        &self,
        operation: &Operation,
        idempotency: &Idempotency,
    ) -> Result<Option<Result<Answer>>> {
        let record = self.store().latest().get(&key(operation, idempotency)).await?;
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
            self.published(publication).await?;
        }
        Ok(Some(match record.outcome {
            Outcome::Done => Ok(Answer::Done),
            Outcome::Body(body) => Ok(Answer::Body(body)),
            Outcome::Tabular { id, metadata_location } => {
                self.replay_tabular(operation, id, metadata_location).await.map(Answer::Tabular)
            }
            Outcome::Refused { kind, message } => Err(refusal_from(&kind, message)),
        }))
    }

    /// The state of a table or view as it is now, for whoever may still load it, or as the answer held it if
    /// it is gone.
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
            self.published(PublicationKey { id, version }).await?;
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

    /// Waits until the metadata file of a version is there. A file that does not come leaves it open how the
    /// first request ended, which may not be answered as if nothing had been written.
    async fn published(&self, key: PublicationKey) -> Result<()> {
        let arrived = self.inner.flights.arrived(key, self.settings().commit_deadline()).await;
        arrived.map_err(Error::unknown)
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
        self.permit_tabular(&store, operation, Target { warehouse, kind, ident }).await
    }

    fn record(&self, idempotency: &Idempotency, outcome: Outcome) -> IdempotencyRecord {
        let lifetime = self.settings().idempotency_lifetime().as_millis();
        IdempotencyRecord {
            fingerprint: idempotency.fingerprint.clone(),
            outcome,
            publications: Vec::new(),
            expires_ms: self.now_ms().saturating_add(i64::try_from(lifetime).unwrap_or(i64::MAX)),
        }
    }
}

fn key(operation: &Operation, idempotency: &Idempotency) -> IdempotencyKey {
    IdempotencyKey { key: idempotency.key, principal: operation.principal.id().to_owned() }
}

macro_rules! refusals {
    (
        remembered { $($variant:ident = $code:literal)* }
        forgotten { $($forgotten:pat_param)|+ }
    ) => {
        /// A refusal that is remembered, as its code and its text.
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

// The codes are part of the store's format: one that was ever written keeps its meaning.
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
    // `Forbidden` is final for its request, but the client may get the permit that it lacks.
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
