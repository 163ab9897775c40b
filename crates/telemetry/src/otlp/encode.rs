//! Encoding of metrics as OpenTelemetry messages, and the resource attributes of the server.

use std::borrow::Cow;

use opentelemetry::KeyValue as KeyValueOfSdk;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;

use crate::collection::{Attributes, Collection, Data};
use crate::settings::OtlpSettings;
use slateberg_base::version::VERSION;

/// The instrumentation scope of spans and metrics.
pub(super) const SCOPE: &str = "slateberg";

/// Returns the resource attributes of the server. Attributes in the settings take precedence.
pub(super) fn resource(settings: &OtlpSettings) -> Resource {
    let own =
        [("service.name", settings.service_name.clone()), ("service.version", VERSION.to_owned())];
    let own = own.map(|(key, value)| KeyValueOfSdk::new(key, value));
    let others = settings.resource_attributes.iter();
    let others = others.map(|(key, value)| KeyValueOfSdk::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(own)
        .with_attributes(others)
        .build()
}

/// Builds an export request for the metrics of a process that started at `began_ns`.
pub(super) fn metrics(
    resource: &Resource,
    all: &Collection,
    began_ns: u64,
    now_ns: u64,
) -> ExportMetricsServiceRequest {
    let at = ExportTimes { began_ns, now_ns };
    let metrics = all.metrics().filter_map(|(name, metric)| {
        Some(Metric {
            name: name.clone(),
            description: metric.help.clone(),
            unit: metric.unit.to_owned(),
            data: Some(at.data(&metric.data)?),
            ..Metric::default()
        })
    });
    let metrics = metrics.collect();
    let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics, ..ScopeMetrics::default() }];
    let resource = Some(resource.into());
    let of_resource = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// The start of counting, and the time of the collection.
#[derive(Clone, Copy)]
struct ExportTimes {
    began_ns: u64,
    now_ns: u64,
}

impl ExportTimes {
    /// Encodes the series of a metric. Returns `None` if the metric has no series.
    fn data(self, data: &Data) -> Option<metric::Data> {
        let cumulative = AggregationTemporality::Cumulative as i32;
        Some(match data {
            Data::Counter(series) if series.is_empty() => return None,
            Data::Gauge(series) if series.is_empty() => return None,
            Data::Histogram(series) if series.is_empty() => return None,
            Data::Counter(series) => metric::Data::Sum(Sum {
                data_points: series
                    .iter()
                    .map(|(attributes, value)| {
                        let value = i64::try_from(*value).unwrap_or(i64::MAX);
                        self.number(attributes, number_data_point::Value::AsInt(value))
                    })
                    .collect(),
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            Data::Gauge(series) => metric::Data::Gauge(Gauge {
                data_points: series
                    .iter()
                    .map(|(attributes, value)| {
                        self.number(attributes, number_data_point::Value::AsDouble(*value))
                    })
                    .collect(),
            }),
            Data::Histogram(series) => metric::Data::Histogram(Histogram {
                data_points: series
                    .iter()
                    .map(|(attributes, distribution)| HistogramDataPoint {
                        attributes: pairs(attributes),
                        start_time_unix_nano: self.began_ns,
                        time_unix_nano: self.now_ns,
                        count: distribution.count(),
                        sum: Some(distribution.sum),
                        bucket_counts: distribution.counts.clone(),
                        explicit_bounds: distribution.bounds.to_vec(),
                        ..HistogramDataPoint::default()
                    })
                    .collect(),
                aggregation_temporality: cumulative,
            }),
        })
    }

    fn number(self, attributes: &Attributes, value: number_data_point::Value) -> NumberDataPoint {
        NumberDataPoint {
            attributes: pairs(attributes),
            start_time_unix_nano: self.began_ns,
            time_unix_nano: self.now_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        }
    }
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: SCOPE.to_owned(),
        version: VERSION.to_owned(),
        ..InstrumentationScope::default()
    })
}

fn pairs(attributes: &Attributes) -> Vec<KeyValue> {
    let text = |value: &Cow<'static, str>| value.clone().into_owned();
    attributes.iter().map(|(key, value)| pair(key, text(value))).collect()
}

fn pair(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::collection::{Distribution, attributes};

    #[test]
    fn resource_attributes_of_the_settings_replace_those_of_the_server() {
        let settings = OtlpSettings {
            resource_attributes: BTreeMap::from([("service.version".to_owned(), "x".to_owned())]),
            ..OtlpSettings::default()
        };
        let resource = resource(&settings);
        for (key, value) in [("service.version", "x"), ("service.name", "slateberg")] {
            assert_eq!(resource.get(&key.into()), Some(value.into()));
        }
    }

    #[test]
    fn metrics_become_a_message_with_their_series_and_times() {
        const BOUNDS: &[f64] = &[0.05, 0.2];
        let mut collection = Collection::default();
        collection.counter("c", "1", "Counts.", attributes([("k", "v")]), 3);
        collection.declare_histogram("empty", "s", "Nothing.");
        let mut distribution = Distribution::new(BOUNDS);
        [0.01, 7.0].into_iter().for_each(|value| distribution.add(value));
        collection.histogram("h", "s", "Took.", Vec::new(), distribution);
        let read = metrics(&resource(&OtlpSettings::default()), &collection, 5, 9);
        let [counter, histogram] = &read.resource_metrics[0].scope_metrics[0].metrics[..] else {
            panic!("{read:?}");
        };
        let Some(metric::Data::Sum(sum)) = &counter.data else { panic!("{counter:?}") };
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(3)));
        assert!(sum.is_monotonic);
        let Some(metric::Data::Histogram(histogram)) = &histogram.data else { panic!() };
        let point = &histogram.data_points[0];
        assert_eq!((&point.bucket_counts[..], point.count), (&[1, 0, 1][..], 2));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    }
}
