//! Buckets: S3, Google Cloud Storage, Azure, and what speaks like them.
//!
//! Patience is short here and long above: whoever waits for a bucket has a loop of its own, with a deadline
//! or without end, and has to hear soon that a request failed. The library's own ten tries with up to
//! fifteen seconds between them would let a minute's outage last for a quarter of a minute longer.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStoreScheme, RetryConfig};
use url::Url;

use super::conditional::Conditional;
use super::open::Opened;

/// Tries of one request beyond the first, and for how long.
const RETRIES_MAX: usize = 3;
const RETRYING_MAX: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Opens the bucket of a URL with these options, and the path that the URL says in it. Nothing for a URL that
/// is of another kind.
pub(super) fn open<'a>(
    url: &Url,
    options: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Opened>, object_store::Error> {
    let (scheme, path) = ObjectStoreScheme::parse(url)?;
    let path = Path::parse(path)?;
    macro_rules! bucket {
        ($builder:ty) => {{
            let builder = <$builder>::new().with_url(url.to_string()).with_retry(retries());
            // Options of other kinds of stores are the environment's, and mean nothing here.
            let known = options
                .filter_map(|(key, value)| Some((key.to_ascii_lowercase().parse().ok()?, value)));
            let builder = known.fold(builder, |it, (key, value)| it.with_config(key, value));
            Conditional::around(Arc::new(builder.build()?))
        }};
    }
    let bucket = match scheme {
        ObjectStoreScheme::AmazonS3 => bucket!(AmazonS3Builder),
        ObjectStoreScheme::GoogleCloudStorage => bucket!(GoogleCloudStorageBuilder),
        ObjectStoreScheme::MicrosoftAzure => bucket!(MicrosoftAzureBuilder),
        _ => return Ok(None),
    };
    Ok(Some(Opened { object_store: bucket, path, conditional_update: true, directory: None }))
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRYING_MAX,
    }
}
