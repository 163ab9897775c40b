//! AWS KMS: wraps data keys with `Encrypt` and unwraps them with `Decrypt`. The encryption context
//! contains the id of the catalog.
//!
//! Data keys are generated here and not by `GenerateDataKey`. So the same code wraps new data keys
//! and wraps existing ones again, and the server needs only the permissions `kms:Encrypt` and
//! `kms:Decrypt`.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_kms::Client;
use aws_sdk_kms::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kms::primitives::Blob;

use super::data_key::DataKey;
use super::error::Error;
use super::settings::Settings;
use super::{Binding, Kms, WrappedBytes};
use slateberg_base::error_chain::Cause;

/// Timeout of connecting to AWS KMS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of attempts per request.
const ATTEMPTS_MAX: u32 = 3;

/// Error codes of transient failures.
const TRANSIENT_CODES: [&str; 4] = [
    "DependencyTimeoutException",
    "KMSInternalException",
    "KeyUnavailableException",
    "ThrottlingException",
];
/// Error codes for a ciphertext that was not created with this key and context.
const WRONG_KEY_CODES: [&str; 2] = ["InvalidCiphertextException", "IncorrectKeyException"];

/// The wrapping keys of an AWS account.
pub(super) struct AwsKms {
    client: Client,
    key: String,
}

impl AwsKms {
    /// Creates a client with the credentials of the environment. Sends no request.
    pub(super) async fn open(settings: &Settings) -> Self {
        let timeout = Duration::from_millis(settings.kms_timeout_ms);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(timeout / ATTEMPTS_MAX)
            .operation_timeout(timeout);
        let retries = aws_config::retry::RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX);
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .timeout_config(timeouts.build())
            .retry_config(retries);
        if !settings.aws_region.is_empty() {
            loader = loader.region(Region::new(settings.aws_region.clone()));
        }
        if !settings.aws_endpoint.is_empty() {
            loader = loader.endpoint_url(&settings.aws_endpoint);
        }
        Self { client: Client::new(&loader.load().await), key: settings.aws_key.clone() }
    }
}

#[async_trait]
impl Kms for AwsKms {
    fn kind(&self) -> &'static str {
        "aws"
    }

    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<WrappedBytes, Error> {
        let key = wrapping_key.unwrap_or(&self.key);
        let request = self
            .client
            .encrypt()
            .key_id(key)
            .set_encryption_context(Some(context(binding)))
            .plaintext(Blob::new(data_key.reveal().to_vec()));
        let wrapped = request.send().await.map_err(|error| request_error(error, key, binding))?;
        match (wrapped.key_id, wrapped.ciphertext_blob) {
            (Some(wrapping_key), Some(blob)) => {
                Ok(WrappedBytes { wrapping_key, bytes: blob.into_inner() })
            }
            _ => Err(Error::Refused(Cause::new("its response has no ciphertext"))),
        }
    }

    async fn unwrap(&self, wrapped: &WrappedBytes, binding: &Binding) -> Result<DataKey, Error> {
        let key = &wrapped.wrapping_key;
        let request = self
            .client
            .decrypt()
            .key_id(key)
            .set_encryption_context(Some(context(binding)))
            .ciphertext_blob(Blob::new(wrapped.bytes.clone()));
        let unwrapped = request.send().await.map_err(|error| request_error(error, key, binding))?;
        let plain = unwrapped.plaintext.map(Blob::into_inner).and_then(DataKey::from_buffer);
        plain.ok_or_else(|| Error::Refused(Cause::new("the unwrapped data is not a data key")))
    }
}

fn context(binding: &Binding) -> HashMap<String, String> {
    binding.pairs().map(|(name, value)| (name.to_owned(), value)).into()
}

/// Converts the error of a request.
fn request_error<E, R>(error: SdkError<E, R>, key: &str, binding: &Binding) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let Some(refusal) = error.as_service_error() else {
        return Error::Unavailable(Cause::new(error));
    };
    let code = refusal.code().unwrap_or("an error without a code");
    let message = refusal.message().unwrap_or_default();
    let text = format!("{code} for key {key}: {message}");
    if TRANSIENT_CODES.contains(&code) {
        Error::Unavailable(Cause::new(text))
    } else if WRONG_KEY_CODES.contains(&code) {
        Error::WrongKey { data_key: binding.data_key, wrapping_key: key.to_owned() }
    } else {
        Error::Refused(Cause::new(text))
    }
}
