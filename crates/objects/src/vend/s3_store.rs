//! [`S3Store`]: options of a bucket, for credentials and signatures.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use aws_sdk_sts::config::Credentials;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use url::Url;

use super::files::VendError;
use crate::location::Location;
use slateberg_base::error_chain::Cause;

/// Region of a store without regions.
const REGION_DEFAULT: &str = "us-east-1";

/// A bucket with the options of its store.
#[derive(Clone)]
pub struct S3Store {
    /// Name of the bucket.
    pub bucket: String,
    /// Region of the bucket.
    pub region: String,
    /// URL of the store, without a trailing slash. `None` for AWS.
    pub endpoint: Option<Url>,
    /// Whether the bucket is part of the host name.
    pub virtual_hosted: bool,
    /// KMS key that encrypts objects, if configured.
    pub(super) kms_key: Option<String>,
    credentials: Arc<dyn CredentialProvider<Credential = AwsCredential>>,
}

impl S3Store {
    /// Returns the bucket of a location whose store has these options.
    pub fn open(
        location: &Location,
        options: &BTreeMap<String, String>,
    ) -> Result<Self, VendError> {
        let mut builder = AmazonS3Builder::new().with_bucket_name(location.authority());
        for (key, value) in options {
            // Unknown options were rejected when the store was opened, or are options of the HTTP
            // client.
            if let Ok(key) = AmazonS3ConfigKey::from_str(key) {
                builder = builder.with_config(key, value);
            }
        }
        let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = value(AmazonS3ConfigKey::Endpoint)
            .map(|url| Url::parse(url.trim_end_matches('/')))
            .transpose()
            .map_err(|error| VendError(Cause::new(format!("Invalid endpoint: {error}"))))?;
        let region = value(AmazonS3ConfigKey::Region)
            .or_else(|| value(AmazonS3ConfigKey::DefaultRegion))
            .unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let is_true =
            |value: Option<String>| value.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let virtual_hosted = is_true(value(AmazonS3ConfigKey::VirtualHostedStyleRequest));
        // In virtual-hosted style, the library requires the bucket in the endpoint, but clients add
        // the bucket themselves.
        let endpoint = endpoint.map(|url| without_bucket(url, location.authority()));
        let kms_key = options
            .iter()
            .find(|(key, _)| key.ends_with("sse_kms_key_id"))
            .map(|(_, value)| value.clone());
        let store = builder.build().map_err(|error| VendError(Cause::new(error)))?;
        Ok(Self {
            bucket: location.authority().to_owned(),
            region,
            virtual_hosted: virtual_hosted || endpoint.is_none(),
            endpoint,
            kms_key,
            credentials: Arc::clone(store.credentials()),
        })
    }

    /// Returns the current credentials of the store.
    pub async fn credentials(&self) -> Result<Credentials, VendError> {
        let found = self.credentials.get_credential().await;
        let found = found.map_err(|error| VendError(Cause::new(error)))?;
        let AwsCredential { key_id, secret_key, token } = &*found;
        Ok(Credentials::new(key_id, secret_key, token.clone(), None, "object_store"))
    }

    /// Returns the configuration of the store for clients.
    pub fn client_config(&self) -> BTreeMap<String, String> {
        let mut config = BTreeMap::from([
            ("client.region".to_owned(), self.region.clone()),
            ("s3.region".to_owned(), self.region.clone()),
        ]);
        if let Some(endpoint) = &self.endpoint {
            let endpoint = endpoint.as_str().trim_end_matches('/').to_owned();
            config.insert("s3.endpoint".to_owned(), endpoint);
            let path_style = !self.virtual_hosted;
            config.insert("s3.path-style-access".to_owned(), path_style.to_string());
            let virtual_hosted = self.virtual_hosted.to_string();
            config.insert("s3.force-virtual-addressing".to_owned(), virtual_hosted);
        }
        config
    }

    /// Returns the AWS partition, such as `aws` or `aws-cn`.
    pub(super) fn partition(&self, role_arn: Option<&str>) -> String {
        let of_role = role_arn.and_then(|arn| arn.split(':').nth(1));
        let of_region = || match &self.region {
            region if region.starts_with("cn-") => "aws-cn",
            region if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        of_role.unwrap_or_else(of_region).to_owned()
    }
}

/// Removes the bucket from the host name of an endpoint.
fn without_bucket(mut url: Url, bucket: &str) -> Url {
    let host = url.host_str().and_then(|host| host.strip_prefix(bucket)?.strip_prefix('.'));
    if let Some(host) = host.map(ToOwned::to_owned)
        && let Err(error) = url.set_host(Some(&host))
    {
        tracing::warn!(%error, host, "failed to remove the bucket from the endpoint of a store");
    }
    url
}
