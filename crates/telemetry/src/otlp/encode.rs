//! From our own values to OpenTelemetry's messages.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use prost::Message;

use crate::collection::{Attributes, Collection, Data};
use crate::settings::OtlpSettings;
use crate::traces::{Ended, Kind, Value};
use slateberg_base::version::VERSION;

/// The flag of spans that are kept.
const SAMPLED: u32 = 1;
/// Who has made spans and metrics.
const SCOPE: &str = "slateberg";

/// What is told of the server with everything that is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource(ResourceMessage);

impl Resource {
    /// As the settings say it.
    pub fn of(settings: &OtlpSettings) -> Self {
        let mut attributes = vec![
            pair("service.name", settings.service_name.clone()),
            pair("service.version", VERSION.to_owned()),
            pair("telemetry.sdk.language", "rust".to_owned()),
            pair("telemetry.sdk.name", SCOPE.to_owned()),
            pair("telemetry.sdk.version", VERSION.to_owned()),
        ];
        for (key, value) in &settings.resource_attributes {
            attributes.retain(|known| known.key != *key);
            attributes.push(pair(key, value.clone()));
        }
        Self(ResourceMessage { attributes, ..ResourceMessage::default() })
    }
}

/// A request with these spans.
pub fn traces(resource: &Resource, spans: Vec<Ended>) -> Vec<u8> {
    let spans = spans.into_iter().map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: scope(), spans, ..ScopeSpans::default() }];
    let resource = Some(resource.0.clone());
    let of_resource = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![of_resource] }.encode_to_vec()
}

/// A request with these metrics, of a process that began at `began_ns`.
pub fn metrics(resource: &Resource, all: &Collection, began_ns: u64, now_ns: u64) -> Vec<u8> {
    let at = Moment { began_ns, now_ns };
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
    let resource = Some(resource.0.clone());
    let of_resource = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }.encode_to_vec()
}

/// When counting began, and when it was looked at.
#[derive(Clone, Copy)]
struct Moment {
    began_ns: u64,
    now_ns: u64,
}

impl Moment {
    /// The series of a metric; none where there are none.
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

fn span(ended: Ended) -> Span {
    let remote = if ended.remote { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    let kind = match ended.kind {
        Kind::Server => SpanKind::Server,
        Kind::Internal => SpanKind::Internal,
        Kind::Client => SpanKind::Client,
    };
    let status = ended
        .error
        .map(|message| Status { message: message.into_owned(), code: StatusCode::Error as i32 });
    let links = ended.links.iter().map(|(trace_id, span_id)| Link {
        trace_id: trace_id.0.to_vec(),
        span_id: span_id.0.to_vec(),
        flags: SAMPLED,
        ..Link::default()
    });
    Span {
        trace_id: ended.trace_id.0.to_vec(),
        span_id: ended.span_id.0.to_vec(),
        trace_state: ended.state.map(Into::into).unwrap_or_default(),
        parent_span_id: ended.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        flags: SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32 | remote,
        name: ended.name.into_owned(),
        kind: kind as i32,
        start_time_unix_nano: ended.began_ns,
        end_time_unix_nano: ended.ended_ns,
        attributes: ended.attributes.into_iter().map(attribute).collect(),
        links: links.collect(),
        status,
        ..Span::default()
    }
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: SCOPE.to_owned(),
        version: VERSION.to_owned(),
        ..InstrumentationScope::default()
    })
}

fn attribute((key, value): (&'static str, Value)) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text.into_owned()),
        Value::Number(number) => any_value::Value::IntValue(number),
    };
    key_value(key, value)
}

fn pairs(attributes: &Attributes) -> Vec<KeyValue> {
    let text = |value: &Cow<'static, str>| value.clone().into_owned();
    attributes.iter().map(|(key, value)| pair(key, text(value))).collect()
}

fn pair(key: &str, value: String) -> KeyValue {
    key_value(key, any_value::Value::StringValue(value))
}

fn key_value(key: &str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::collection::{Distribution, attributes};
    use crate::trace_context::{SpanId, TraceId};

    #[test]
    fn the_settings_win_over_what_is_told_of_the_server_anyway() {
        let settings = OtlpSettings {
            resource_attributes: BTreeMap::from([("service.version".to_owned(), "x".to_owned())]),
            ..OtlpSettings::default()
        };
        let Resource(ResourceMessage { attributes, .. }) = Resource::of(&settings);
        let versions = attributes.iter().filter(|pair| pair.key == "service.version");
        assert_eq!(versions.collect::<Vec<_>>(), [&pair("service.version", "x".to_owned())]);
        assert!(attributes.contains(&pair("service.name", "slateberg".to_owned())));
    }

    #[test]
    fn a_span_is_read_back_as_it_was() {
        let ended = Ended {
            trace_id: TraceId([1; 16]),
            span_id: SpanId([2; 8]),
            parent: Some(SpanId([3; 8])),
            remote: true,
            state: Some("congo=t61".into()),
            name: "GET /".into(),
            kind: Kind::Server,
            began_ns: 5,
            ended_ns: 9,
            attributes: vec![("http.response.status_code", Value::Number(500))],
            links: vec![(TraceId([4; 16]), SpanId([5; 8]))],
            error: Some("500".into()),
        };
        let body = traces(&Resource::of(&OtlpSettings::default()), vec![ended]);
        let read = ExportTraceServiceRequest::decode(body.as_slice()).expect("it is a message");
        let span = &read.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!((&span.trace_id[..], &span.parent_span_id[..]), (&[1; 16][..], &[3; 8][..]));
        assert_eq!((span.flags, span.kind), (0x301, SpanKind::Server as i32));
        assert_eq!(span.links[0].span_id, [5; 8]);
        assert_eq!(span.status.as_ref().map(|status| status.code), Some(2));
    }

    #[test]
    fn metrics_are_read_back_as_they_were() {
        const BOUNDS: &[f64] = &[0.05, 0.2];
        let mut collection = Collection::default();
        collection.counter("c", "1", "Counts.", attributes([("k", "v")]), 3);
        collection.declare_histogram("empty", "s", "Nothing.");
        let mut distribution = Distribution::new(BOUNDS);
        [0.01, 7.0].into_iter().for_each(|value| distribution.add(value));
        collection.histogram("h", "s", "Took.", Vec::new(), distribution);
        let body = metrics(&Resource::of(&OtlpSettings::default()), &collection, 5, 9);
        let read = ExportMetricsServiceRequest::decode(body.as_slice()).expect("it is a message");
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
