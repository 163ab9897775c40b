//! One request to a collector, tried again where that may help.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode};

use super::InvalidOtlp;
use super::encode::Resource;
use crate::settings::OtlpSettings;
use slateberg_base::retry::Backoff;

/// Tries of one request.
const TRIES_MAX: usize = 4;
const DELAY_MIN: Duration = Duration::from_millis(500);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// How long a collector may ask for patience.
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// Where requests go.
#[derive(Debug, Clone)]
pub(super) struct Url(reqwest::Url);

/// Sends to one URL.
pub(super) struct Sender {
    client: Client,
    url: Url,
    /// What is told of the server with each request.
    pub(super) resource: Arc<Resource>,
}

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nobody has answered.
    #[error("{0}")]
    Unanswered(reqwest::Error),
    /// The collector does not want it.
    #[error("answered {0}")]
    Refused(StatusCode),
}

impl Url {
    /// The URL of a setting.
    pub(super) fn parse(setting: &str, text: &str) -> Result<Self, InvalidOtlp> {
        let wrong = |reason: String| InvalidOtlp(format!("{setting}: {reason}"));
        let url = reqwest::Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        match url.scheme() {
            "http" | "https" => Ok(Self(url)),
            other => Err(wrong(format!("{other}: a URL of http or https is needed"))),
        }
    }
}

/// What requests are made with.
pub(super) fn client(settings: &OtlpSettings) -> Result<Client, InvalidOtlp> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let wrong = || InvalidOtlp(format!("headers.{name}: this cannot be a header"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.reveal()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    Client::builder()
        .default_headers(headers)
        .timeout(Duration::from_millis(settings.timeout_ms))
        // A credential is for the collector alone.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| InvalidOtlp(error.to_string()))
}

impl Sender {
    pub(super) fn new(client: Client, url: Url, resource: Arc<Resource>) -> Self {
        Self { client, url, resource }
    }

    /// Sends a message, and tries again as OTLP has it.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<(), Error> {
        let body = bytes::Bytes::from(body);
        let mut backoff = Backoff::new(DELAY_MIN, DELAY_MAX);
        let mut tries = 0;
        loop {
            tries += 1;
            let url = self.url.0.clone();
            let (error, patience) = match self.client.post(url).body(body.clone()).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => (Error::Refused(answer.status()), patience(answer.headers())),
                Err(error) => (Error::Unanswered(error.without_url()), None),
            };
            if tries == TRIES_MAX || !error.may_pass() {
                return Err(error);
            }
            match patience {
                Some(patience) => tokio::time::sleep(patience).await,
                None => backoff.wait().await,
            }
        }
    }
}

impl Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Refused(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

/// How long the collector wants to be left alone.
fn patience(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(PATIENCE_MAX))
}
