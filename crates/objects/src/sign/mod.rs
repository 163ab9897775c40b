//! Signatures for single requests to S3, for clients without credentials.
//!
//! A client's request is parsed and checked (`check`), rebuilt in a canonical form, and this form
//! is signed (Signature Version 4). If the client sends a different request, the signature does not
//! match. However, the client could add headers that are not signed. So the server signs only with
//! credentials that are limited to the table, or for stores that reject unsigned headers
//! (`unsigned_headers`).

mod check;
mod checked;
mod delete_objects;
pub mod request;
mod signature;
#[cfg(test)]
mod tests;
mod unsigned_headers;

use std::collections::BTreeMap;

use aws_sdk_sts::config::Credentials;
pub use checked::CheckedRequest;
use checked::Payload;
pub use signature::Signed;
use signature::signed;
use tokio::sync::OnceCell;

use self::request::{Allowed, SignError, SignRequest};
use super::vend::s3_store::S3Store;
use slateberg_base::secret::Secret;

/// Signs requests to one bucket.
pub struct Signer {
    store: S3Store,
    /// Whether the store rejects unsigned headers. Empty until the server has tested this.
    refuses_unsigned: OnceCell<bool>,
}

impl Signer {
    /// Creates a signer for this store.
    pub fn new(store: S3Store) -> Self {
        Self { store, refuses_unsigned: OnceCell::new() }
    }

    /// Rejects a request beyond the client's access.
    pub fn check(
        &self,
        request: &SignRequest,
        allowed: &Allowed<'_>,
    ) -> Result<CheckedRequest, SignError> {
        check::check(&self.store, request, allowed)
    }

    /// Signs a request with credentials that were vended for the table. The store then enforces the
    /// limits of these credentials. Without such credentials, signs with the credentials of the
    /// warehouse, but only if the store rejects unsigned headers.
    pub async fn sign(
        &self,
        checked: &CheckedRequest,
        vended: Option<&BTreeMap<String, Secret>>,
        now_ms: i64,
    ) -> Result<Signed, SignError> {
        let credentials = match vended {
            Some(config) => session(config)?,
            // MinIO does not compare a body with its signed hash. Other stores might not do so
            // either.
            None if self.store.endpoint.is_some()
                && matches!(checked.payload, Payload::Text(_)) =>
            {
                return Err(SignError::Invalid(
                    "Cannot sign: DeleteObjects requires AWS, or a store with vended credentials \
                     (sts_endpoint)"
                        .to_owned(),
                ));
            }
            None => {
                let unsigned_headers =
                    || unsigned_headers::rejects_unsigned_headers(&self.store, now_ms);
                if !*self.refuses_unsigned.get_or_try_init(unsigned_headers).await? {
                    return Err(SignError::Invalid(
                        "Cannot sign: the store accepts unsigned headers, so a signature would give access to \
                         more than this table. Use vended credentials (sts_endpoint)"
                            .to_owned(),
                    ));
                }
                let own = self.store.credentials().await;
                own.map_err(SignError::unavailable)?
            }
        };
        signed(checked, &self.store.region, credentials, now_ms)
    }
}

/// Converts the configuration for clients to credentials.
fn session(config: &BTreeMap<String, Secret>) -> Result<Credentials, SignError> {
    let property = |key: &str| {
        let found = config.get(key).map(|secret| secret.reveal().to_owned());
        found.ok_or_else(|| SignError::unavailable(format!("vended credentials lack {key}")))
    };
    let token = Some(property("s3.session-token")?);
    let (key, secret) = (property("s3.access-key-id")?, property("s3.secret-access-key")?);
    Ok(Credentials::new(key, secret, token, None, "vended"))
}
