//! [`HttpMetrics`]: the durations of requests and the number of active requests, with names by
//! OpenTelemetry's conventions for HTTP servers.

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use super::collection::{Attributes, Collection};
use super::instruments::{Histograms, SECONDS};
use super::stripes::Stripes;

const DURATION: &str = "http.server.request.duration";
const ACTIVE: &str = "http.server.active_requests";
/// Known methods. The last entry represents all other methods.
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "_OTHER"];

/// Status recorded for a client that disconnects before the response, as in nginx.
const CLIENT_GONE: u16 = 499;

/// Number of methods that are always reported, even without an active request.
const USUAL_METHODS: usize = 5;

/// Metrics of requests.
#[derive(Debug)]
pub struct HttpMetrics {
    scheme: &'static str,
    /// The route templates, by number.
    routes: Vec<String>,
    durations: Histograms<SeriesKey>,
    active: Stripes<[AtomicI64; METHODS.len()]>,
}

/// A method, as an index into `METHODS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Method(u8);

/// Attributes of a series of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesKey {
    method: Method,
    /// `None` if no route matched.
    route: Option<u16>,
    status: u16,
}

/// An active request.
#[derive(Debug)]
pub struct ActiveRequest<'a> {
    metrics: &'a HttpMetrics,
    method: Method,
    route: Option<u16>,
    began: Instant,
    /// The status of the response. `None` until there is a response. The client may disconnect
    /// before that.
    status: Option<u16>,
}

impl Method {
    /// Returns the method with this name.
    pub fn from_name(name: &str) -> Self {
        let other = METHODS.len() - 1;
        let found = METHODS[..other].iter().position(|known| *known == name);
        Self(u8::try_from(found.unwrap_or(other)).unwrap_or_default())
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        METHODS[usize::from(self.0)]
    }
}

impl HttpMetrics {
    /// Creates the metrics of a server with these routes and this URL scheme.
    pub fn new(scheme: &'static str, routes: Vec<String>) -> Self {
        let durations = Histograms::new(SECONDS);
        Self { scheme, routes, durations, active: Stripes::default() }
    }

    /// Returns the template of a route.
    pub fn route(&self, number: u16) -> Option<&str> {
        self.routes.get(usize::from(number)).map(String::as_str)
    }

    /// Returns the URL scheme.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Records the start of a request.
    pub fn begin(&self, method: Method, route: Option<u16>) -> ActiveRequest<'_> {
        self.active.own()[usize::from(method.0)].fetch_add(1, Ordering::Relaxed);
        ActiveRequest { metrics: self, method, route, began: Instant::now(), status: None }
    }

    /// Adds the metrics to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Time from the header of a request to the first byte of its response.";
        into.declare_histogram(DURATION, "s", help);
        for (SeriesKey { method, route, status }, distribution) in self.durations.read() {
            let mut series = self.series(method);
            if let Some(route) = route.and_then(|route| self.route(route)) {
                series.push(("http.route".into(), route.to_owned().into()));
            }
            series.push(("http.response.status_code".into(), status.to_string().into()));
            if status >= 500 {
                series.push(("error.type".into(), status.to_string().into()));
            }
            into.histogram(DURATION, "s", help, series, distribution);
        }
        for number in 0..METHODS.len() {
            let stripes = self.active.all();
            let active: i64 = stripes.map(|stripe| stripe[number].load(Ordering::Relaxed)).sum();
            if number < USUAL_METHODS || active != 0 {
                let method = Method(u8::try_from(number).unwrap_or_default());
                let help = "Requests in flight.";
                into.gauge(ACTIVE, "{request}", help, self.series(method), active as f64);
            }
        }
    }

    fn series(&self, method: Method) -> Attributes {
        vec![
            (Cow::Borrowed("http.request.method"), Cow::Borrowed(method.name())),
            (Cow::Borrowed("url.scheme"), Cow::Borrowed(self.scheme)),
        ]
    }
}

impl ActiveRequest<'_> {
    /// Records the status of the response.
    pub fn set_status(mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        let status = self.status.unwrap_or(CLIENT_GONE);
        let key = SeriesKey { method: self.method, route: self.route, status };
        self.metrics.durations.record_since(key, self.began);
        // The thread may have changed since the start, so this may be a different stripe. The sum
        // of all stripes is still correct.
        self.metrics.active.own()[usize::from(self.method.0)].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::prometheus::render;
    use super::*;

    #[test]
    fn durations_have_a_series_per_method_route_and_status() {
        let metrics = HttpMetrics::new("https", vec!["/v1/config".to_owned()]);
        metrics.begin(Method::from_name("GET"), Some(0)).set_status(200);
        metrics.begin(Method::from_name("BREW"), None).set_status(503);
        drop(metrics.begin(Method::from_name("DELETE"), Some(0)));
        let under_way = metrics.begin(Method::from_name("POST"), Some(0));
        let mut collection = Collection::default();
        metrics.collect(&mut collection);
        drop(under_way);
        let text = render(&collection);
        for line in [
            "http_server_request_duration_seconds_count{http_request_method=\"GET\",url_scheme=\"https\",http_route=\"/v1/config\",http_response_status_code=\"200\"} 1",
            "http_server_request_duration_seconds_count{http_request_method=\"_OTHER\",url_scheme=\"https\",http_response_status_code=\"503\",error_type=\"503\"} 1",
            "http_server_request_duration_seconds_count{http_request_method=\"DELETE\",url_scheme=\"https\",http_route=\"/v1/config\",http_response_status_code=\"499\"} 1",
            "http_server_active_requests{http_request_method=\"POST\",url_scheme=\"https\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        for bound in ["0.05", "0.2"] {
            assert!(text.contains(&format!("le=\"{bound}\"")), "{bound}");
        }
    }
}
