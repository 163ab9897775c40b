//! Settings from `OTEL_*` variables, as defined by OpenTelemetry's specification. They apply to
//! settings that neither configuration files nor slateberg's own variables change.

use std::collections::BTreeMap;

use crate::settings::{OtlpSettings, Protocol, Ratio};
use slateberg_base::secret::Secret;

/// Prefix of OpenTelemetry's variables.
pub const PREFIX: &str = "OTEL_";

/// Returns the settings that these variables describe, with defaults for all others. An invalid
/// value is an error, although other programs only warn. With a warning, the operator would notice
/// the mistake only when data is missing in the collector.
pub fn settings(variables: &BTreeMap<String, String>) -> Result<OtlpSettings, String> {
    let mut settings = OtlpSettings::default();
    let get = |name: &str| variables.get(name).map(|text| text.trim()).filter(|it| !it.is_empty());
    if get("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        return Ok(settings);
    }
    let texts = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &mut settings.endpoint),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &mut settings.traces_endpoint),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &mut settings.metrics_endpoint),
    ];
    for (name, setting) in texts {
        if let Some(text) = get(name) {
            text.clone_into(setting);
        }
    }
    if let Some(protocol) = get("OTEL_EXPORTER_OTLP_PROTOCOL") {
        settings.protocol = match protocol {
            "http/protobuf" => Protocol::HttpProtobuf,
            "grpc" => Protocol::Grpc,
            other => {
                return Err(format!(
                    "OTEL_EXPORTER_OTLP_PROTOCOL: {other} is not supported: use http/protobuf or grpc"
                ));
            }
        };
    }
    let exporters = [
        ("OTEL_TRACES_EXPORTER", &mut settings.traces),
        ("OTEL_METRICS_EXPORTER", &mut settings.metrics),
    ];
    for (name, setting) in exporters {
        match get(name) {
            None => {}
            Some(list) => *setting = list.split(',').any(|it| it.trim() == "otlp"),
        }
    }
    let times = [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", &mut settings.timeout_ms),
        ("OTEL_METRIC_EXPORT_INTERVAL", &mut settings.metrics_interval_ms),
    ];
    for (name, setting) in times {
        if let Some(text) = get(name) {
            *setting =
                text.parse().map_err(|_| format!("{name}: expected a number of milliseconds"))?;
        }
    }
    if let Some(list) = get("OTEL_EXPORTER_OTLP_HEADERS") {
        let headers = pairs("OTEL_EXPORTER_OTLP_HEADERS", list)?;
        settings.headers =
            headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    }
    if let Some(list) = get("OTEL_RESOURCE_ATTRIBUTES") {
        settings.resource_attributes = pairs("OTEL_RESOURCE_ATTRIBUTES", list)?;
    }
    let named = settings.resource_attributes.remove("service.name");
    if let Some(name) = get("OTEL_SERVICE_NAME").map(ToOwned::to_owned).or(named) {
        settings.service_name = name;
    }
    if let Some(sampler) = get("OTEL_TRACES_SAMPLER") {
        settings.sample_ratio = ratio(sampler, get("OTEL_TRACES_SAMPLER_ARG"))?;
    }
    Ok(settings)
}

/// Returns the sampled share of traces. A client's sampling decision always takes precedence.
fn ratio(sampler: &str, argument: Option<&str>) -> Result<Ratio, String> {
    match sampler {
        "parentbased_always_on" | "always_on" => Ok(Ratio::ONE),
        "parentbased_always_off" | "always_off" => Ok(Ratio::NONE),
        "parentbased_traceidratio" | "traceidratio" => match argument {
            None => Ok(Ratio::ONE),
            Some(text) => text.parse().ok().and_then(Ratio::new).ok_or_else(|| {
                format!("OTEL_TRACES_SAMPLER_ARG: {text} is not a number from 0 to 1")
            }),
        },
        other => Err(format!("OTEL_TRACES_SAMPLER: {other} is not supported")),
    }
}

/// Parses pairs in the format of W3C Baggage: `name=value,name=value`, percent-encoded.
fn pairs(variable: &str, list: &str) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        // The error must not repeat the value, which may be a secret.
        let wrong = || format!("{variable}: expected name=value pairs, separated by commas");
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8();
        let value = value.map_err(|_| wrong())?.into_owned();
        pairs.insert(name.trim().to_owned(), value);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<OtlpSettings, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        settings(&pairs.collect())
    }

    #[test]
    fn variables_have_the_effects_of_the_specification() {
        let found = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20eDp5, x-a=b"),
            ("OTEL_SERVICE_NAME", "lake"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
        ])
        .expect("they are valid");
        assert_eq!(found.traces_url().as_deref(), Some("https://traces/x"));
        assert_eq!(found.metrics_url().as_deref(), Some("http://collector:4318/v1/metrics"));
        assert_eq!(found.headers["authorization"].reveal(), "Basic eDp5");
        assert_eq!((found.service_name.as_str(), found.resource_attributes.len()), ("lake", 1));
        assert_eq!(Some(found.sample_ratio), Ratio::new(0.25));
        assert_eq!(found.metrics_interval_ms, 250);
    }

    #[test]
    fn protocol_variable_selects_grpc_which_has_no_paths() {
        let found = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317/"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]);
        let found = found.expect("they are valid");
        assert_eq!(found.protocol, Protocol::Grpc);
        assert_eq!(found.traces_url().as_deref(), Some("http://collector:4317"));
    }

    #[test]
    fn settings_win_over_variables() {
        let from_environment = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_SERVICE_NAME", "lake"),
        ]);
        let endpoint = "http://other".to_owned();
        let settings = OtlpSettings { endpoint, ..OtlpSettings::default() };
        let settings = settings.or(from_environment.expect("they are valid"));
        assert_eq!((settings.endpoint.as_str(), settings.service_name.as_str()), {
            ("http://other", "lake")
        });
    }

    #[test]
    fn disabled_sdk_or_exporter_sends_nothing() {
        let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for pairs in [vec![], vec![on, ("OTEL_SDK_DISABLED", "TRUE")]] {
            assert_eq!(of(&pairs), Ok(OtlpSettings::default()));
        }
        let found = of(&[on, ("OTEL_TRACES_EXPORTER", "none")]).expect("it is valid");
        assert_eq!(found.traces_url(), None);
        assert!(found.metrics_url().is_some());
    }

    #[test]
    fn unsupported_variable_values_are_rejected() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ] {
            let error = of(&[(name, value)]).expect_err(name);
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{error}");
        }
    }
}
