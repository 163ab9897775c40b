//! Invalid export settings.

/// The export settings are invalid.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.otlp: {0}")]
pub struct InvalidOtlp(pub(super) String);

impl InvalidOtlp {
    #[cfg(not(feature = "otlp-grpc"))]
    pub(super) fn no_grpc() -> Self {
        let reason =
            "protocol: this program was built without gRPC (feature otlp-grpc): use http/protobuf";
        Self(reason.to_owned())
    }
}
