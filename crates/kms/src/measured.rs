//! A KMS that records metrics of its requests.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::data_key::DataKey;
use super::{Binding, Error, Kms, Wrapped};
use slateberg_telemetry::requests::Requests;

struct Measured {
    inner: Arc<dyn Kms>,
    requests: Arc<Requests>,
}

/// Wraps a KMS so that its requests are measured.
pub fn measured(inner: Arc<dyn Kms>, requests: Arc<Requests>) -> Arc<dyn Kms> {
    Arc::new(Measured { inner, requests })
}

impl Measured {
    fn ended<T>(&self, operation: &'static str, began: Instant, result: &Result<T, Error>) {
        let error = result.as_ref().err().map(|error| match error {
            Error::Unavailable(_) => "unavailable",
            Error::Refused(_) => "refused",
            Error::WrongKey { .. } => "wrong_key",
            _ => "other",
        });
        self.requests.ended(self.inner.kind(), operation, error, began);
    }
}

#[async_trait]
impl Kms for Measured {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<Wrapped, Error> {
        let began = Instant::now();
        let wrapped = self.inner.wrap(data_key, binding, wrapping_key).await;
        self.ended("wrap", began, &wrapped);
        wrapped
    }

    async fn unwrap(&self, wrapped: &Wrapped, binding: &Binding) -> Result<DataKey, Error> {
        let began = Instant::now();
        let data_key = self.inner.unwrap(wrapped, binding).await;
        self.ended("unwrap", began, &data_key);
        data_key
    }
}
