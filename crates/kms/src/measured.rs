//! A KMS that records metrics of its requests.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::data_key::DataKey;
use super::{Binding, Error, Kms, WrappedBytes};
use slateberg_telemetry::requests::RequestMetrics;

struct MeasuredKms {
    inner: Arc<dyn Kms>,
    requests: Arc<RequestMetrics>,
}

/// Returns a KMS that records the metrics of each request to `inner`.
pub fn measured(inner: Arc<dyn Kms>, requests: Arc<RequestMetrics>) -> Arc<dyn Kms> {
    Arc::new(MeasuredKms { inner, requests })
}

impl MeasuredKms {
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
impl Kms for MeasuredKms {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<WrappedBytes, Error> {
        let began = Instant::now();
        let wrapped = self.inner.wrap(data_key, binding, wrapping_key).await;
        self.ended("wrap", began, &wrapped);
        wrapped
    }

    async fn unwrap(&self, wrapped: &WrappedBytes, binding: &Binding) -> Result<DataKey, Error> {
        let began = Instant::now();
        let data_key = self.inner.unwrap(wrapped, binding).await;
        self.ended("unwrap", began, &data_key);
        data_key
    }
}
