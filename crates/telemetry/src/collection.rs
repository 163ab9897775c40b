//! [`Collection`]: what all metrics come to at one moment. The page that Prometheus scrapes and what goes out
//! over OTLP are both made of one, so that they cannot tell different things.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What tells one series of a metric from another: names of OpenTelemetry's conventions, and values.
pub type Attributes = Vec<(Cow<'static, str>, Cow<'static, str>)>;

/// Metrics by name, each with its series.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Collection {
    metrics: BTreeMap<String, Metric>,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// What it is measured in, as UCUM writes it.
    pub unit: &'static str,
    /// What it says.
    pub help: String,
    /// Its series.
    pub data: Data,
}

/// What kind of metric it is, with its series in the order of their attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// A number that only grows.
    Counter(BTreeMap<Attributes, u64>),
    /// A number that goes up and down.
    Gauge(BTreeMap<Attributes, f64>),
    /// How many of what size.
    Histogram(BTreeMap<Attributes, Distribution>),
}

/// How many values of what size there were.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The upper ends of the buckets; each is inside of its own.
    pub bounds: Cow<'static, [f64]>,
    /// How many values are in each bucket, and then how many are above all bounds.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: f64,
}

impl Distribution {
    /// Nothing yet, in these buckets.
    pub fn new(bounds: impl Into<Cow<'static, [f64]>>) -> Self {
        let bounds = bounds.into();
        Self { counts: vec![0; bounds.len() + 1], bounds, sum: 0.0 }
    }

    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Adds all values of another one with the same buckets.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.sum += other.sum;
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Attributes with these names and values.
pub fn attributes<const N: usize>(pairs: [(&'static str, &'static str); N]) -> Attributes {
    pairs.into_iter().map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))).collect()
}

impl Collection {
    /// The metrics by name, in order.
    pub fn metrics(&self) -> impl Iterator<Item = (&String, &Metric)> {
        self.metrics.iter()
    }

    /// Adds to a series of a counter.
    pub fn counter(
        &mut self,
        name: &str,
        unit: &'static str,
        help: &str,
        attributes: Attributes,
        value: u64,
    ) {
        let data = self.data(name, unit, help, || Data::Counter(BTreeMap::new()));
        if let Data::Counter(series) = data {
            *series.entry(attributes).or_default() += value;
        }
    }

    /// Sets a series of a gauge.
    pub fn gauge(
        &mut self,
        name: &str,
        unit: &'static str,
        help: &str,
        attributes: Attributes,
        value: f64,
    ) {
        let data = self.data(name, unit, help, || Data::Gauge(BTreeMap::new()));
        if let Data::Gauge(series) = data {
            series.insert(attributes, value);
        }
    }

    /// Sets a series of a histogram.
    pub fn histogram(
        &mut self,
        name: &str,
        unit: &'static str,
        help: &str,
        attributes: Attributes,
        value: Distribution,
    ) {
        let data = self.data(name, unit, help, || Data::Histogram(BTreeMap::new()));
        if let Data::Histogram(series) = data {
            series.insert(attributes, value);
        }
    }

    /// A histogram without a series: it is known from the start.
    pub fn declare_histogram(&mut self, name: &str, unit: &'static str, help: &str) {
        self.data(name, unit, help, || Data::Histogram(BTreeMap::new()));
    }

    /// A counter without a series.
    pub fn declare_counter(&mut self, name: &str, unit: &'static str, help: &str) {
        self.data(name, unit, help, || Data::Counter(BTreeMap::new()));
    }

    fn data(
        &mut self,
        name: &str,
        unit: &'static str,
        help: &str,
        new: impl FnOnce() -> Data,
    ) -> &mut Data {
        let metric = || Metric { unit, help: help.to_owned(), data: new() };
        &mut self.metrics.entry(name.to_owned()).or_insert_with(metric).data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_inside_of_its_bucket() {
        const BOUNDS: &[f64] = &[0.05, 0.2];
        let mut distribution = Distribution::new(BOUNDS);
        for value in [0.0, 0.05, 0.050_1, 0.2, 0.3, 7.0] {
            distribution.add(value);
        }
        assert_eq!(distribution.counts, [2, 2, 2]);
        assert_eq!(distribution.count(), 6);
        let mut twice = distribution.clone();
        twice.merge(&distribution);
        assert_eq!(twice.counts, [4, 4, 4]);
        assert!((twice.sum - 2.0 * distribution.sum).abs() < 1e-9);
    }
}
