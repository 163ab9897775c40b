//! Renders a [`Collection`] as the page that a Prometheus server scrapes. Names follow
//! OpenTelemetry's mapping to Prometheus, with the unit as a suffix.

use std::borrow::Cow;
use std::fmt::Write;

use super::collection::{Attributes, Collection, Data, Distribution, Metric};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Renders the page.
pub fn render(collection: &Collection) -> String {
    let mut text = String::new();
    for (name, metric) in collection.metrics() {
        render_metric(&mut text, &name_of(name, metric), metric);
    }
    text
}

// Errors are ignored because writing into a `String` cannot fail.
fn render_metric(text: &mut String, name: &str, metric: &Metric) {
    let kind = match &metric.data {
        Data::Counter(_) => "counter",
        Data::Gauge(_) => "gauge",
        Data::Histogram(_) => "histogram",
    };
    let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    match &metric.data {
        Data::Counter(series) => {
            for (attributes, value) in series {
                let _ = writeln!(text, "{name}{} {value}", labels(attributes, None));
            }
        }
        Data::Gauge(series) => {
            for (attributes, value) in series {
                let _ = writeln!(text, "{name}{} {value}", labels(attributes, None));
            }
        }
        Data::Histogram(series) => {
            for (attributes, distribution) in series {
                render_distribution(text, name, attributes, distribution);
            }
        }
    }
}

fn render_distribution(text: &mut String, name: &str, to: &Attributes, of: &Distribution) {
    let mut below = 0;
    for (bound, count) in of.bounds.iter().zip(&of.counts) {
        below += count;
        let bound = bound.to_string();
        let _ = writeln!(text, "{name}_bucket{} {below}", labels(to, Some(&bound)));
    }
    let all = of.count();
    let _ = writeln!(text, "{name}_bucket{} {all}", labels(to, Some("+Inf")));
    let _ = writeln!(text, "{name}_sum{} {}", labels(to, None), of.sum);
    let _ = writeln!(text, "{name}_count{} {all}", labels(to, None));
}

/// Returns the metric's name for Prometheus.
fn name_of(name: &str, metric: &Metric) -> String {
    let mut name: String = name.chars().map(sanitize).collect();
    let unit = match metric.unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    if !name.ends_with(unit) {
        name.push_str(unit);
    }
    if matches!(metric.data, Data::Counter(_)) && !name.ends_with("_total") {
        name.push_str("_total");
    }
    name
}

fn sanitize(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}

fn labels(attributes: &Attributes, bound: Option<&str>) -> String {
    let bound = bound.map(|bound| (Cow::Borrowed("le"), Cow::Borrowed(bound)));
    let pairs = attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
    let pairs: Vec<_> = pairs
        .chain(bound)
        .map(|(name, value)| {
            let name: String = name.chars().map(sanitize).collect();
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::super::collection::attributes;
    use super::*;

    #[test]
    fn names_have_their_units_and_values_are_escaped() {
        const BOUNDS: &[f64] = &[0.05, 0.2];
        let mut collection = Collection::default();
        let escaped = attributes([("a.b", "say \"no\"\\")]);
        collection.counter("slateberg.policy.reloads", "{reload}", "Reloads.", escaped, 3);
        collection.gauge("slateberg.page.cache", "By", "Kept.", Vec::new(), 7.0);
        let mut distribution = Distribution::new(BOUNDS);
        [0.01, 0.1, 7.0].into_iter().for_each(|value| distribution.add(value));
        let get = attributes([("http.request.method", "GET")]);
        collection.histogram("http.server.request.duration", "s", "Took.", get, distribution);
        let expected = "\
# HELP http_server_request_duration_seconds Took.
# TYPE http_server_request_duration_seconds histogram
http_server_request_duration_seconds_bucket{http_request_method=\"GET\",le=\"0.05\"} 1
http_server_request_duration_seconds_bucket{http_request_method=\"GET\",le=\"0.2\"} 2
http_server_request_duration_seconds_bucket{http_request_method=\"GET\",le=\"+Inf\"} 3
http_server_request_duration_seconds_sum{http_request_method=\"GET\"} 7.11
http_server_request_duration_seconds_count{http_request_method=\"GET\"} 3
# HELP slateberg_page_cache_bytes Kept.
# TYPE slateberg_page_cache_bytes gauge
slateberg_page_cache_bytes 7
# HELP slateberg_policy_reloads_total Reloads.
# TYPE slateberg_policy_reloads_total counter
slateberg_policy_reloads_total{a_b=\"say \\\"no\\\"\\\\\"} 3
";
        assert_eq!(render(&collection), expected);
    }
}
