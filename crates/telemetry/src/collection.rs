//! [`Collection`]: the values of all metrics at one moment. The page for Prometheus and the OTLP
//! exports are both created from a collection, so they contain the same metrics.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Attributes that identify one series of a metric: pairs of a name and a value. The names follow
/// OpenTelemetry's conventions.
pub type Attributes = Vec<(Cow<'static, str>, Cow<'static, str>)>;

/// Metrics by name, each with its series.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Collection {
    metrics: BTreeMap<String, Metric>,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The unit, in UCUM notation.
    pub unit: &'static str,
    /// The description.
    pub help: String,
    /// The series.
    pub data: Data,
}

/// The kind of a metric, with its series in the order of their attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// A number that only increases.
    Counter(BTreeMap<Attributes, u64>),
    /// A number that increases and decreases.
    Gauge(BTreeMap<Attributes, f64>),
    /// A distribution of values.
    Histogram(BTreeMap<Attributes, Distribution>),
}

/// The number of values per bucket, and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The upper bounds of the buckets, inclusive.
    pub bounds: Cow<'static, [f64]>,
    /// The number of values in each bucket; the last element counts values above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

impl Distribution {
    /// Creates an empty distribution with these bucket bounds.
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

    /// Adds all values of another distribution with the same buckets.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.sum += other.sum;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Creates attributes from names and values.
pub fn attributes<const N: usize>(pairs: [(&'static str, &'static str); N]) -> Attributes {
    pairs.into_iter().map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))).collect()
}

impl Collection {
    /// Returns the metrics in the order of their names.
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

    /// Adds a histogram without series, so that it is listed before its first value.
    pub fn declare_histogram(&mut self, name: &str, unit: &'static str, help: &str) {
        self.data(name, unit, help, || Data::Histogram(BTreeMap::new()));
    }

    /// Adds a counter without series, so that it is listed before its first value.
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
    fn bucket_bound_is_inclusive() {
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
