//! OTLP over gRPC.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::headers::headers;
use super::invalid::InvalidOtlp;
use crate::settings::OtlpSettings;

/// Returns a channel that connects on first use. Requires a Tokio runtime.
pub(super) fn channel(settings: &OtlpSettings, url: &str) -> Result<Channel, InvalidOtlp> {
    let invalid = |error: tonic::transport::Error| InvalidOtlp(error.to_string());
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(invalid)?;
    let endpoint = match url.starts_with("https:") {
        true => endpoint.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(invalid)?,
        false => endpoint,
    };
    Ok(endpoint.timeout(Duration::from_millis(settings.timeout_ms)).connect_lazy())
}

/// Returns the configured headers as gRPC metadata.
pub(super) fn metadata(settings: &OtlpSettings) -> Result<MetadataMap, InvalidOtlp> {
    headers(settings).map(MetadataMap::from_headers)
}

/// Sends metrics.
pub(super) struct Metrics {
    client: MetricsServiceClient<Channel>,
    metadata: MetadataMap,
}

impl Metrics {
    pub(super) fn new(settings: &OtlpSettings, url: &str) -> Result<Self, InvalidOtlp> {
        let client = MetricsServiceClient::new(channel(settings, url)?);
        Ok(Self { client, metadata: metadata(settings)? })
    }

    pub(super) async fn export(&self, message: ExportMetricsServiceRequest) -> Result<(), Status> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        self.client.clone().export(request).await.map(|_| ())
    }
}

/// Whether a retry may succeed, as defined by OTLP.
pub(super) fn is_transient(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
    )
}
