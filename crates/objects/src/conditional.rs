//! [`Conditional`]: an object store that returns `AlreadyExists` only if the object really exists.
//!
//! S3 responds with `409 ConditionalRequestConflict` to a put while another request for the same
//! name is in progress. Then nothing was written, and the client has to retry. Even a single writer
//! can cause this: if it retries because a response was lost, the first attempt may still be in
//! progress. `object_store` reports this `409` as [`Error::AlreadyExists`], like the `412` for an
//! existing object. SlateDB then looks for its own mark on the object, and finds no object. It
//! concludes that another writer was first, and closes as fenced although no writer has fenced it.
//!
//! Therefore this store checks whether the object exists. If the object exists, the error is
//! returned, and SlateDB determines which writer created the object. If the object does not exist,
//! the put is retried.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, Result,
};

use super::forward::forward_all_but_put;
use slateberg_base::retry::Backoff;

/// Maximum number of attempts of one put. Callers can retry after that.
const TRIES_MAX: usize = 8;
const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_millis(500);

/// An object store that verifies rejected puts.
pub struct Conditional {
    inner: Arc<dyn ObjectStore>,
}

impl Conditional {
    /// Wraps a store.
    pub fn around(inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(Self { inner })
    }

    /// Creates an object. Returns `AlreadyExists` only if a head request finds the object.
    async fn create(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let mut backoff = Backoff::new(DELAY_MIN, DELAY_MAX);
        for _ in 0..TRIES_MAX {
            let put = self.inner.put_opts(location, payload.clone(), options.clone()).await;
            let Err(taken @ Error::AlreadyExists { .. }) = put else { return put };
            match self.inner.head(location).await {
                Ok(_) => return Err(taken),
                Err(Error::NotFound { .. }) => {
                    tracing::info!(%location, "conditional put returned 409: retrying");
                }
                // It is unknown whether the object exists, so the error is not `AlreadyExists`.
                Err(error) => return Err(error),
            }
            backoff.wait().await;
        }
        let source = format!(
            "{location}: the object does not exist, but {TRIES_MAX} conditional puts conflicted"
        );
        Err(Error::Generic { store: "conditional", source: source.into() })
    }
}

forward_all_but_put!(Conditional);

impl Conditional {
    async fn put_or_forward(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        match options.mode {
            PutMode::Create => self.create(location, payload, options).await,
            _ => self.inner.put_opts(location, payload, options).await,
        }
    }
}

#[cfg(test)]
mod tests;
