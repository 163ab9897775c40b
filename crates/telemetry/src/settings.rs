//! Settings of the log, the audit log, and the export of traces and metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use slateberg_base::secret::Secret;

/// Settings of the log. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The least severe level that is logged, or directives such as `info,slateberg=debug`.
    /// Unknown levels and crates are rejected.
    pub level: String,
    /// Text for people or JSON for machines.
    pub format: Format,
    /// Whether each request is logged, at `info`.
    pub access: bool,
    /// Requests that take at least this many milliseconds are logged at `warn`. 0 disables this.
    pub slow_request_ms: u64,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            level: "warn,slateberg=info".to_owned(),
            format: Format::Text,
            access: false,
            slow_request_ms: 5000,
        }
    }
}

/// Settings of the audit log. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSettings {
    /// The destination of audit lines.
    pub to: AuditTo,
    /// The file, if the destination is a file.
    pub file: PathBuf,
}

/// A destination of audit lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditTo {
    /// No audit log.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// A file.
    File,
}

/// Settings of telemetry exports. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Export over OpenTelemetry's protocol.
    pub otlp: OtlpSettings,
}

/// Export of traces and metrics over OTLP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpSettings {
    /// The URL of a collector, such as `http://localhost:4318`, or `http://localhost:4317` for
    /// gRPC. If it is empty, there is no collector.
    pub endpoint: String,
    /// The complete URL for traces. If it is empty, the URL is `/v1/traces` below `endpoint`, or
    /// with gRPC `endpoint` itself.
    pub traces_endpoint: String,
    /// The complete URL for metrics. If it is empty, the URL is `/v1/metrics` below `endpoint`, or
    /// with gRPC `endpoint` itself.
    pub metrics_endpoint: String,
    /// The protocol of requests.
    pub protocol: Protocol,
    /// Headers of every request, such as a header with a credential.
    pub headers: BTreeMap<String, Secret>,
    /// Whether traces are exported.
    pub traces: bool,
    /// Whether metrics are exported.
    pub metrics: bool,
    /// The sampled share, from 0 to 1, of traces that begin in this server.
    pub sample_ratio: Ratio,
    /// Interval between exports of metrics, in milliseconds.
    pub metrics_interval_ms: u64,
    /// Timeout of a request, in milliseconds.
    pub timeout_ms: u64,
    /// Maximum number of waiting spans. Further spans are dropped and counted.
    pub queue_spans_max: usize,
    /// Maximum duration of the last export at shutdown, in milliseconds.
    pub flush_ms_max: u64,
    /// The `service.name` of the server.
    pub service_name: String,
    /// Further resource attributes of the server.
    pub resource_attributes: BTreeMap<String, String>,
}

/// The protocol of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// Protobuf over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ratio(f64);

/// The number is never NaN.
impl Eq for Ratio {}

impl Ratio {
    /// All traces.
    pub const ONE: Self = Self(1.0);
    /// No traces.
    pub const NONE: Self = Self(0.0);

    /// Creates a ratio. `None` if the number is not between 0 and 1.
    pub fn new(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then_some(Self(number))
    }

    /// Whether a trace with this random value is sampled.
    pub(crate) fn samples(self, chance: [u8; 8]) -> bool {
        // An `f64` has 53 bits of precision.
        let chance = (u64::from_be_bytes(chance) >> 11) as f64 / (1_u64 << 53) as f64;
        chance < self.0
    }
}

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        Self::new(number).ok_or_else(|| format!("expected a number from 0 to 1, got {number}"))
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        ratio.0
    }
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            traces_endpoint: String::new(),
            metrics_endpoint: String::new(),
            protocol: Protocol::default(),
            headers: BTreeMap::new(),
            traces: true,
            metrics: true,
            sample_ratio: Ratio(0.01),
            metrics_interval_ms: 60_000,
            timeout_ms: 10_000,
            queue_spans_max: 8192,
            flush_ms_max: 5000,
            service_name: "slateberg".to_owned(),
            resource_attributes: BTreeMap::new(),
        }
    }
}

impl OtlpSettings {
    /// Returns these settings. For each setting that has its default value, uses the value in
    /// `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        fn or<T: PartialEq>(own: T, other: T, default: T) -> T {
            if own == default { other } else { own }
        }
        let default = Self::default();
        macro_rules! all {
            ($($field:ident),*) => {
                Self { $($field: or(self.$field, others.$field, default.$field)),* }
            };
        }
        all!(
            endpoint,
            traces_endpoint,
            metrics_endpoint,
            protocol,
            headers,
            traces,
            metrics,
            sample_ratio,
            metrics_interval_ms,
            timeout_ms,
            queue_spans_max,
            flush_ms_max,
            service_name,
            resource_attributes
        )
    }

    /// Returns the URL for traces. `None` if traces are not exported.
    pub fn traces_url(&self) -> Option<String> {
        self.traces.then(|| self.url(&self.traces_endpoint, "traces")).flatten()
    }

    /// Returns the URL for metrics. `None` if metrics are not exported.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        self.metrics.then(|| self.url(&self.metrics_endpoint, "metrics")).flatten()
    }

    fn url(&self, own: &str, signal: &str) -> Option<String> {
        match (own, self.endpoint.trim_end_matches('/')) {
            ("", "") => None,
            ("", base) if self.protocol == Protocol::Grpc => Some(base.to_owned()),
            ("", base) => Some(format!("{base}/v1/{signal}")),
            (own, _) => Some(own.to_owned()),
        }
    }
}
