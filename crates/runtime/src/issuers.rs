//! The keys of token issuers, fetched in the background for the verification of tokens.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use slateberg_authn::issuers::Issuer;
use slateberg_authn::key_set::KeySet;
use slateberg_base::error_chain::chain;
use slateberg_telemetry::issuers::IssuerFetches;

/// Timeout of a request to an issuer.
const FETCH_MAX: Duration = Duration::from_secs(10);
/// Maximum size of an issuer's response, in bytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Interval of retries after a failed fetch. It is short so that an issuer's recovery is noticed
/// soon.
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// The path of the discovery document below an issuer's `iss`.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The keys of an issuer could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The request failed, or the response has an error status.
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    /// The issuer's response is invalid.
    #[error("{url}: {reason}")]
    Answer {
        /// The requested URL.
        url: String,
        /// The problem of the response.
        reason: String,
    },
}

/// The fields of a discovery document that this module uses.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint: Option<String>,
}

/// Returns an HTTP client that follows no redirects, so that only the settings determine the origin
/// of keys.
pub fn client() -> Result<reqwest::Client, FetchError> {
    let none = reqwest::redirect::Policy::none();
    Ok(reqwest::Client::builder().timeout(FETCH_MAX).redirect(none).build()?)
}

/// Loads an issuer's keys from its file, if it has one.
pub fn read_file(issuer: &Issuer) -> Result<(), String> {
    if issuer.is_fetched() {
        return Ok(());
    }
    let file = &issuer.settings.jwks_file;
    let wrong = |reason: String| {
        format!("authn.issuers.{}.jwks_file: {}: {reason}", issuer.name, file.display())
    };
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    issuer.keys.push(KeySet::parse(&text).map_err(wrong)?, None);
    Ok(())
}

/// Refreshes an issuer's keys at once, then periodically and whenever a token names an unknown key,
/// until the server stops. While the issuer does not respond, the known keys stay valid.
pub(crate) async fn keep_fresh(
    issuer: Arc<Issuer>,
    client: reqwest::Client,
    refresh: Duration,
    fetches: Arc<IssuerFetches>,
    clock: impl Fn() -> i64,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let looked = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            looked = fetch(&issuer, &client) => looked,
        };
        let pause = match looked {
            Ok((keys, token_url)) => {
                fetches.done(&issuer.name, clock());
                issuer.keys.push(keys, token_url.as_deref());
                refresh
            }
            Err(error) => {
                fetches.failed(&issuer.name);
                issuer.keys.failed();
                let issuer = &issuer.name;
                let error = chain(&error);
                tracing::warn!(issuer, error, "failed to fetch the keys of an issuer");
                RETRY_EVERY.min(refresh)
            }
        };
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(pause) => {}
            () = issuer.keys.wait_requested() => {}
        }
    }
}

/// Fetches an issuer's keys and the URL of its token endpoint.
pub async fn fetch(
    issuer: &Issuer,
    client: &reqwest::Client,
) -> Result<(KeySet, Option<String>), FetchError> {
    let settings = &issuer.settings;
    let (url, token_url) = match settings.jwks_url.as_str() {
        "" => {
            let url = format!("{}{DISCOVERY}", settings.issuer.trim_end_matches('/'));
            let wrong = |reason| FetchError::Answer { url: url.clone(), reason };
            let found: Discovery = serde_json::from_slice(&get(client, &url).await?)
                .map_err(|error| wrong(error.to_string()))?;
            if found.issuer != settings.issuer {
                return Err(wrong(format!(
                    "its discovery document has the issuer {}",
                    found.issuer
                )));
            }
            (found.jwks_uri, found.token_endpoint)
        }
        url => (url.to_owned(), None),
    };
    let text = get(client, &url).await?;
    let keys = KeySet::parse(&text).map_err(|reason| FetchError::Answer { url, reason })?;
    Ok((keys, token_url))
}

async fn get(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, FetchError> {
    let mut response = client.get(url).send().await?.error_for_status()?;
    let wrong = |reason: String| FetchError::Answer { url: url.to_owned(), reason };
    if !response.status().is_success() {
        return Err(wrong(format!("the response has the status {}", response.status())));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > RESPONSE_BYTES_MAX {
            return Err(wrong(format!("the response is longer than {RESPONSE_BYTES_MAX} bytes")));
        }
    }
    Ok(body)
}
