//! How the process logs, where it tells who did what, and where traces and metrics go.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use slateberg_base::secret::Secret;

/// Settings of the log; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The least severe level that is logged, or directives such as `info,slateberg=debug`.
    /// Unknown levels and crates are rejected.
    pub level: String,
    /// For people or for machines.
    pub format: Format,
    /// Whether each request is logged, at `info`.
    pub access: bool,
    /// Requests that take at least this many milliseconds are logged at `warn`; 0: none.
    pub slow_request_ms: u64,
}

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
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

/// Settings of the audit log; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSettings {
    /// Where its lines go.
    pub to: AuditTo,
    /// The file, if they go to one.
    pub file: PathBuf,
}

/// Where audit lines go.
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

/// Settings of what is told to others; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// OpenTelemetry's protocol.
    pub otlp: OtlpSettings,
}

/// Where traces and metrics go over OTLP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpSettings {
    /// The URL of a collector, such as `http://localhost:4318`, or `http://localhost:4317` for gRPC;
    /// empty for none.
    pub endpoint: String,
    /// The URL for traces alone, whole; empty for `/v1/traces` below `endpoint`, or with gRPC `endpoint`
    /// itself.
    pub traces_endpoint: String,
    /// The URL for metrics alone, whole; empty for `/v1/metrics` below `endpoint`, or with gRPC
    /// `endpoint` itself.
    pub metrics_endpoint: String,
    /// How requests are made.
    pub protocol: Protocol,
    /// Headers of each request, such as one with a credential.
    pub headers: BTreeMap<String, Secret>,
    /// Whether traces are sent.
    pub traces: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// The part of the traces that is kept, of those that begin here, from 0 to 1.
    pub sample_ratio: Ratio,
    /// Milliseconds between two looks at all metrics.
    pub metrics_interval_ms: u64,
    /// Milliseconds that a request may take.
    pub timeout_ms: u64,
    /// Spans that may wait to be sent; further ones are dropped, and counted.
    pub queue_spans_max: usize,
    /// Milliseconds that the end of the server waits for what is still to be sent.
    pub flush_ms_max: u64,
    /// What the server is called.
    pub service_name: String,
    /// What is told of it besides.
    pub resource_attributes: BTreeMap<String, String>,
}

/// The protocol of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// Protobuf in requests of HTTP.
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

/// It is a number, never none.
impl Eq for Ratio {}

impl Ratio {
    /// Everything.
    pub const ONE: Self = Self(1.0);
    /// Nothing.
    pub const NONE: Self = Self(0.0);

    /// The number as a ratio, if it is one.
    pub fn new(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then_some(Self(number))
    }

    /// Whether something is chosen that has this of chance.
    pub fn chooses(self, chance: [u8; 8]) -> bool {
        // 53 bits are what a number of this kind can tell apart.
        let chance = (u64::from_be_bytes(chance) >> 11) as f64 / (1_u64 << 53) as f64;
        chance < self.0
    }
}

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        Self::new(number).ok_or_else(|| format!("{number} is not from 0 to 1"))
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
    /// These settings, and where they leave what is so by default, the others.
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

    /// The URL that traces go to, if they go anywhere.
    pub fn traces_url(&self) -> Option<String> {
        self.traces.then(|| self.url(&self.traces_endpoint, "traces")).flatten()
    }

    /// The URL that metrics go to, if they go anywhere.
    pub fn metrics_url(&self) -> Option<String> {
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
