//! Buckets: S3, Google Cloud Storage, Azure, and compatible services.
//!
//! Timeouts are short here. The code that sends requests has its own retries and deadlines, so it
//! has to notice a failure soon. The library's default is ten retries with up to fifteen seconds
//! between them. With this default, requests could still wait up to 15 seconds after an outage of
//! one minute has ended.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

use super::conditional::Conditional;
use super::credentials::WithCredentials;

/// Maximum number and duration of retries of one request.
const RETRIES_MAX: usize = 3;
const RETRYING_MAX: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Sources of credentials other than the instance metadata.
const AWS_PLACES: &str = "aws_access_key_id and aws_secret_access_key, a web identity \
                          (aws_web_identity_token_file and aws_role_arn) or container credentials \
                          (aws_container_credentials_relative_uri, or \
                          aws_container_credentials_full_uri with \
                          aws_container_authorization_token_file); profiles (~/.aws) are not read";
const GOOGLE_PLACES: &str = "google_service_account, google_service_account_key, \
                             google_application_credentials or google_bearer_token; there is no \
                             file of `gcloud auth application-default login` either";
const AZURE_PLACES: &str = "azure_storage_account_key, azure_storage_sas_key, azure_storage_token, a \
                            client secret (azure_storage_client_id, azure_storage_client_secret, \
                            azure_storage_tenant_id), a workload identity \
                            (azure_federated_token_file) or azure_use_azure_cli";

/// A bucket, and a path in it.
type Bucket = (Arc<dyn ObjectStore>, Path);

/// Opens the bucket of a URL with these options. Returns the bucket and the path in the URL, or
/// `None` if the URL is not that of a bucket.
pub(super) fn open<'a>(
    url: &Url,
    options: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Bucket>, object_store::Error> {
    let (scheme, path) = ObjectStoreScheme::parse(url)?;
    let path = Path::parse(path)?;
    macro_rules! bucket {
        ($builder:ty, $own:expr, $searched:expr) => {{
            let builder = <$builder>::new().with_url(url.to_string()).with_retry(retries());
            // Ignores unknown options: those in the environment may be for other kinds of stores.
            let known = options
                .filter_map(|(key, value)| Some((key.to_ascii_lowercase().parse().ok()?, value)));
            let builder = known.fold(builder, |it, (key, value)| it.with_config(key, value));
            let has_own = $own(&|key| builder.get_config_value(&key));
            let bucket = builder.build()?;
            let credentials = Arc::clone(bucket.credentials());
            let bucket = Conditional::around(Arc::new(bucket));
            if has_own {
                bucket
            } else {
                let lookup = move || {
                    let credentials = Arc::clone(&credentials);
                    async move { credentials.get_credential().await.map(drop) }.boxed()
                };
                WithCredentials::around(bucket, url.to_string(), $searched, Box::new(lookup))
            }
        }};
    }
    let bucket = match scheme {
        ObjectStoreScheme::AmazonS3 => bucket!(AmazonS3Builder, aws_has_own, AWS_PLACES),
        ObjectStoreScheme::GoogleCloudStorage => {
            bucket!(GoogleCloudStorageBuilder, google_has_own, GOOGLE_PLACES)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            bucket!(MicrosoftAzureBuilder, azure_has_own, AZURE_PLACES)
        }
        _ => return Ok(None),
    };
    Ok(Some((bucket, path)))
}

/// Whether credentials for S3 are configured, so that the instance metadata is not needed.
fn aws_has_own(value: &dyn Fn(AmazonS3ConfigKey) -> Option<String>) -> bool {
    use AmazonS3ConfigKey as K;
    let has = |key| value(key).is_some();
    has(K::AccessKeyId)
        || has(K::SecretAccessKey)
        || (has(K::WebIdentityTokenFile) && has(K::RoleArn))
        || has(K::ContainerCredentialsRelativeUri)
        || (has(K::ContainerCredentialsFullUri) && has(K::ContainerAuthorizationTokenFile))
        || is_true(value(K::SkipSignature))
}

/// Whether credentials for Google Cloud Storage are configured. The default file of `gcloud` is not
/// considered here, because the lookup reads it.
fn google_has_own(value: &dyn Fn(GoogleConfigKey) -> Option<String>) -> bool {
    use GoogleConfigKey as K;
    let keys = [K::ServiceAccount, K::ServiceAccountKey, K::ApplicationCredentials, K::BearerToken];
    keys.into_iter().any(|key| value(key).is_some()) || is_true(value(K::SkipSignature))
}

/// Whether credentials for Azure are configured.
fn azure_has_own(value: &dyn Fn(AzureConfigKey) -> Option<String>) -> bool {
    use AzureConfigKey as K;
    let keys = [
        K::AccessKey,
        K::Token,
        K::SasKey,
        K::ClientSecret,
        K::FederatedTokenFile,
        K::FabricSessionToken,
    ];
    let flags = [K::UseAzureCli, K::UseEmulator, K::SkipSignature];
    keys.into_iter().any(|key| value(key).is_some())
        || flags.into_iter().any(|key| is_true(value(key)))
}

fn is_true(value: Option<String>) -> bool {
    value.is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on")
    })
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRYING_MAX,
    }
}
