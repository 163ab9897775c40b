//! Requests to a collector: exports of metrics with retries, and the HTTP client of the SDK.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use tokio::runtime::Handle;

use super::headers::headers;
use super::invalid::InvalidOtlp;
use crate::settings::{OtlpSettings, Protocol};
use slateberg_base::retry::Backoff;

/// Maximum number of attempts per request.
const ATTEMPTS_MAX: usize = 4;
const DELAY_MIN: Duration = Duration::from_millis(500);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Maximum delay that the server accepts from a collector's `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Rejects settings that prevent all exports.
pub fn check(settings: &OtlpSettings) -> Result<(), InvalidOtlp> {
    let urls =
        [("traces_endpoint", settings.traces_url()), ("metrics_endpoint", settings.metrics_url())];
    for (setting, url) in urls {
        if let Some(url) = url {
            check_url(setting, &url)?;
            headers(settings)?;
            match settings.protocol {
                #[cfg(not(feature = "otlp-grpc"))]
                Protocol::Grpc => return Err(InvalidOtlp::no_grpc()),
                #[cfg(feature = "otlp-grpc")]
                Protocol::Grpc => {}
                Protocol::HttpProtobuf => {}
            }
        }
    }
    Ok(())
}

/// Rejects URLs with a scheme other than HTTP or HTTPS.
fn check_url(setting: &str, url: &str) -> Result<(), InvalidOtlp> {
    let wrong = |reason: String| InvalidOtlp(format!("{setting}: {reason}"));
    let url = reqwest::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(()),
        other => Err(wrong(format!("{other}: expected an http or https URL"))),
    }
}

/// Returns the HTTP client.
pub(super) fn client(settings: &OtlpSettings) -> Result<Client, InvalidOtlp> {
    let mut headers = headers(settings)?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    Client::builder()
        .default_headers(headers)
        .timeout(Duration::from_millis(settings.timeout_ms))
        // A redirect could send the credential to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| InvalidOtlp(error.to_string()))
}

/// HTTP client for the SDK, which calls it from a thread without a runtime.
#[derive(Debug)]
pub(super) struct SdkHttpClient {
    client: Client,
    runtime: Handle,
}

impl SdkHttpClient {
    /// Creates a client that sends on the current runtime.
    pub(super) fn new(client: Client) -> Self {
        Self { client, runtime: Handle::current() }
    }
}

#[async_trait]
impl HttpClient for SdkHttpClient {
    /// Sends only the configured headers, without those that the SDK takes from `OTEL_*` variables.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let request = self.client.post(parts.uri.to_string()).body(body);
        // Calls `send` inside the task, because not only the polling but also the call must happen
        // on the runtime.
        let sent = self.runtime.spawn(async move { request.send().await }).await?;
        let sent = sent.map_err(reqwest::Error::without_url)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = sent.status();
        *response.headers_mut() = sent.headers().clone();
        Ok(response)
    }
}

/// Sends metrics to one URL.
pub(super) struct Sender {
    transport: Transport,
    /// The server's attributes, which every request contains.
    pub(super) resource: Resource,
}

enum Transport {
    Http(Client, String),
    #[cfg(feature = "otlp-grpc")]
    Grpc(Box<super::grpc::Metrics>),
}

/// A failed export.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No response.
    #[error("{0}")]
    NoResponse(#[source] reqwest::Error),
    /// The collector rejected the export over HTTP.
    #[error("the collector returned {0}")]
    Rejected(StatusCode),
    /// The collector rejected the export over gRPC.
    #[cfg(feature = "otlp-grpc")]
    #[error("the collector returned {0}")]
    Status(tonic::Status),
}

impl Sender {
    /// Creates a sender for this URL. gRPC requires a Tokio runtime.
    pub(super) fn new(
        settings: &OtlpSettings,
        url: &str,
        resource: Resource,
    ) -> Result<Self, InvalidOtlp> {
        let transport = match settings.protocol {
            Protocol::HttpProtobuf => Transport::Http(client(settings)?, url.to_owned()),
            #[cfg(feature = "otlp-grpc")]
            Protocol::Grpc => Transport::Grpc(Box::new(super::grpc::Metrics::new(settings, url)?)),
            #[cfg(not(feature = "otlp-grpc"))]
            Protocol::Grpc => return Err(InvalidOtlp::no_grpc()),
        };
        Ok(Self { transport, resource })
    }

    /// Sends a message. Retries as defined by OTLP.
    pub(super) async fn send(&self, message: ExportMetricsServiceRequest) -> Result<(), Error> {
        let mut backoff = Backoff::new(DELAY_MIN, DELAY_MAX);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (error, wait) = match self.transport.send(&message).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if attempts == ATTEMPTS_MAX || !error.is_transient() {
                return Err(error);
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => backoff.wait().await,
            }
        }
    }
}

impl Transport {
    /// Sends a message once. The error contains the delay that the collector requests before the
    /// next attempt, if it requests one.
    async fn send(
        &self,
        message: &ExportMetricsServiceRequest,
    ) -> Result<(), (Error, Option<Duration>)> {
        match self {
            Self::Http(client, url) => {
                match client.post(url.as_str()).body(message.encode_to_vec()).send().await {
                    Ok(response) if response.status().is_success() => Ok(()),
                    Ok(response) => {
                        let wait = retry_after(response.headers());
                        Err((Error::Rejected(response.status()), wait))
                    }
                    Err(error) => Err((Error::NoResponse(error.without_url()), None)),
                }
            }
            #[cfg(feature = "otlp-grpc")]
            Self::Grpc(metrics) => {
                let exported = metrics.export(message.clone()).await;
                exported.map_err(|status| (Error::Status(status), None))
            }
        }
    }
}

impl Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::NoResponse(_) => true,
            Self::Rejected(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            #[cfg(feature = "otlp-grpc")]
            Self::Status(status) => super::grpc::is_transient(status),
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
