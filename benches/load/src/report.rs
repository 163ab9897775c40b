//! Reports for people and programs. Each round has a line. At the end, each step has a table with
//! the medians of its rounds, and a comparison of all servers with the first one.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};

use super::load::Measured;

/// Figures of a round, or medians of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Number of requests, including those without a response.
    pub requests: f64,
    /// Failed requests.
    pub failures: f64,
    /// Seconds from the first request to the last response.
    pub elapsed_s: f64,
    /// Successful requests per second.
    pub throughput: f64,
    /// Mean latency of successful requests, in microseconds.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 95th percentile of the latency.
    pub p95_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// Maximum latency.
    pub max_us: f64,
    /// CPU time of the server per successful request, in microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// CPU time of the server per thousand successful requests, in seconds.
    pub cpu_seconds_per_1000: Option<f64>,
    /// Resident memory of the server after the round.
    pub rss_mib: Option<f64>,
    /// Peak of the resident memory during the round.
    pub peak_mib: Option<f64>,
}

impl Figures {
    /// Returns the figures of a measurement.
    pub fn of(measured: &Measured) -> Self {
        let done = measured.done() as f64;
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |q| micros(measured.latencies.value_at_quantile(q));
        let elapsed_s = measured.elapsed.as_secs_f64();
        let server = measured.server.as_ref();
        let cpu = server.map(|(before, after)| after.cpu_seconds_since(before) / done.max(1.0));
        Self {
            requests: done + measured.failed() as f64,
            failures: measured.failed() as f64,
            elapsed_s,
            throughput: done / elapsed_s.max(f64::EPSILON),
            mean_us: measured.latencies.mean() / 1e3,
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            max_us: micros(measured.latencies.max()),
            cpu_us_per_request: cpu.map(|seconds| seconds * 1e6),
            cpu_seconds_per_1000: cpu.map(|seconds| seconds * 1e3),
            rss_mib: server.map(|(_, after)| after.rss_mib),
            peak_mib: server.map(|(_, after)| after.peak_mib),
        }
    }

    /// Returns the median of each figure, and the sum of failures.
    pub fn medians(rounds: &[&Self]) -> Self {
        let median_of =
            |figure: fn(&Self) -> f64| median(rounds.iter().map(|it| figure(it)).collect());
        let optional_median_of = |figure: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(|it| figure(it)).collect();
            (!values.is_empty()).then(|| median(values))
        };
        Self {
            requests: median_of(|it| it.requests),
            failures: rounds.iter().map(|it| it.failures).sum(),
            elapsed_s: median_of(|it| it.elapsed_s),
            throughput: median_of(|it| it.throughput),
            mean_us: median_of(|it| it.mean_us),
            p50_us: median_of(|it| it.p50_us),
            p95_us: median_of(|it| it.p95_us),
            p99_us: median_of(|it| it.p99_us),
            max_us: median_of(|it| it.max_us),
            cpu_us_per_request: optional_median_of(|it| it.cpu_us_per_request),
            cpu_seconds_per_1000: optional_median_of(|it| it.cpu_seconds_per_1000),
            rss_mib: optional_median_of(|it| it.rss_mib),
            peak_mib: optional_median_of(|it| it.peak_mib),
        }
    }
}

/// Returns the median, or the mean of the two middle values. 0 without values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Returns the ratio to the reference.
fn ratio(value: Option<f64>, reference: Option<f64>) -> Option<f64> {
    let reference = reference.filter(|reference| *reference > 0.0)?;
    value.map(|value| value / reference)
}

/// Result of a server's turn in a step.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The figures of the turn, and additional figures as JSON.
    Measured(Figures, Value),
    /// The server does not support the step, for this reason.
    NotSupported(String),
}

/// A server's turn in a step.
#[derive(Debug, Clone)]
pub struct Record {
    /// The server's name.
    pub server: String,
    /// The scenario.
    pub scenario: &'static str,
    /// Parameters that distinguish the step within its scenario.
    pub parameter: Value,
    /// Title of the step.
    pub title: String,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of shared connections.
    pub connections: usize,
    /// Index of the server's turn.
    pub round: usize,
    /// Result of the turn.
    pub outcome: Outcome,
}

impl Record {
    /// Formats the record as a line of JSON.
    pub fn json_line(&self) -> String {
        let mut line = json!({
            "server": self.server,
            "scenario": self.scenario,
            "parameter": self.parameter,
            "clients": self.clients,
            "connections": self.connections,
            "round": self.round,
        });
        match &self.outcome {
            Outcome::Measured(figures, extra) => {
                merge(&mut line, json!(figures));
                for count in ["requests", "failures"] {
                    line[count] = json!(line[count].as_f64().unwrap_or_default() as u64);
                }
                line["extra"] = extra.clone();
            }
            Outcome::NotSupported(reason) => line["not_supported"] = json!(reason),
        }
        format!("{line}\n")
    }

    /// Formats the record as a line of progress.
    pub fn progress_line(&self) -> String {
        let head = format!("{:<14} {:<58} #{}", self.server, self.title, self.round);
        match &self.outcome {
            Outcome::NotSupported(reason) => format!("{head} not supported: {reason}\n"),
            Outcome::Measured(figures, extra) => {
                let failures = match figures.failures {
                    0.0 => String::new(),
                    some => format!(" FAILURES {some:.0}: {}", extra["first_failure"]),
                };
                let warning = if self.has_wrong_responses() { " UNTRUE ANSWERS" } else { "" };
                let (throughput, p50) = (figures.throughput, figures.p50_us / 1e3);
                format!("{head} {throughput:>9.0}/s, p50 {p50:.3} ms{failures}{warning}\n")
            }
        }
    }

    /// Whether the server reported the outcome of a commit incorrectly.
    pub fn has_wrong_responses(&self) -> bool {
        let Outcome::Measured(_, extra) = &self.outcome else { return false };
        ["lost", "untrue_refusals"].iter().any(|it| extra[it].as_u64().is_some_and(|n| n > 0))
    }
}

/// Merges the members of one object into another.
pub fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Formats the tables of a run: one for each step, with a row for each server.
pub fn summary(records: &[Record]) -> String {
    let mut text = String::new();
    let mut titles: Vec<&str> = Vec::new();
    for record in records {
        if !titles.contains(&record.title.as_str()) {
            titles.push(&record.title);
        }
    }
    for title in titles {
        let of_step: Vec<&Record> = records.iter().filter(|it| it.title == title).collect();
        let _ = write!(text, "\n{title}\n{}", table_head());
        text.push_str(&table(&of_step));
    }
    text
}

fn table_head() -> String {
    format!(
        "  {:<14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8} | {:>7} {:>7} {:>7}\n",
        "server",
        "req/s",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "cpu us/req",
        "MiB",
        "failed",
        "x req/s",
        "x p50",
        "x cpu"
    )
}

fn table(records: &[&Record]) -> String {
    let mut servers: Vec<&str> = Vec::new();
    for record in records {
        if !servers.contains(&record.server.as_str()) {
            servers.push(&record.server);
        }
    }
    let mut text = String::new();
    let mut reference = None;
    for server in servers {
        let of_server = records.iter().filter(|it| it.server == server);
        let mut rounds = Vec::new();
        let mut refusal = None;
        for record in of_server {
            match &record.outcome {
                Outcome::Measured(figures, _) => rounds.push(figures),
                Outcome::NotSupported(reason) => refusal = Some(reason),
            }
        }
        if rounds.is_empty() {
            let _ = writeln!(text, "  {server:<14} not supported: {}", refusal.map_or("", |it| it));
            continue;
        }
        let medians = Figures::medians(&rounds);
        // The first server is the reference. If it does not support the step, there is no
        // reference.
        let first = records.first().is_some_and(|first| first.server == server);
        if first {
            reference = Some(medians.clone());
        }
        text.push_str(&row(server, &medians, reference.as_ref()));
    }
    text
}

fn row(server: &str, it: &Figures, reference: Option<&Figures>) -> String {
    let optional_figure = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
    let times = |figure: fn(&Figures) -> Option<f64>| {
        ratio(figure(it), reference.and_then(figure)).map_or("-".to_owned(), |r| format!("{r:.2}"))
    };
    format!(
        "  {:<14} {:>9.0} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>10} {:>8} {:>8} | {:>7} {:>7} {:>7}\n",
        server,
        it.throughput,
        it.mean_us / 1e3,
        it.p50_us / 1e3,
        it.p95_us / 1e3,
        it.p99_us / 1e3,
        optional_figure(it.cpu_us_per_request),
        optional_figure(it.peak_mib),
        it.failures,
        times(|it| Some(it.throughput)),
        times(|it| Some(it.p50_us)),
        times(|it| it.cpu_us_per_request),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(server: &str, round: usize, outcome: Outcome) -> Record {
        Record {
            server: server.to_owned(),
            scenario: "commit",
            parameter: json!({ "operation": "x" }),
            title: "commit x, clients: 1".to_owned(),
            clients: 1,
            connections: 1,
            round,
            outcome,
        }
    }

    fn measured(throughput: f64, cpu: Option<f64>) -> Outcome {
        let p50_us = 1e6 / throughput;
        let figures = Figures { throughput, p50_us, cpu_us_per_request: cpu, ..Figures::default() };
        Outcome::Measured(figures, json!({}))
    }

    #[test]
    fn median_ignores_an_outlier() {
        assert_eq!(median(vec![3.0, 1.0, 900.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 900.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn medians_sum_failures_and_keep_unknown_figures_unknown() {
        let round = |failures, rss_mib| Figures { failures, rss_mib, ..Figures::default() };
        let rounds = [round(1.0, None), round(2.0, Some(5.0)), round(0.0, Some(7.0))];
        let medians = Figures::medians(&rounds.iter().collect::<Vec<_>>());
        assert_eq!((medians.failures, medians.rss_mib), (3.0, Some(6.0)));
        assert_eq!(medians.peak_mib, None);
    }

    #[test]
    fn ratio_without_a_positive_reference_is_none() {
        assert_eq!(ratio(Some(3.0), Some(2.0)), Some(1.5));
        assert_eq!(ratio(Some(3.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(2.0)), None);
    }

    #[test]
    fn a_table_compares_each_server_to_the_first() {
        let text = summary(&[
            record("ours", 0, measured(100.0, Some(10.0))),
            record("ours", 1, measured(300.0, Some(30.0))),
            record("theirs", 0, measured(50.0, None)),
            record("old", 0, Outcome::NotSupported("405 no".to_owned())),
        ]);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |server| words.iter().find(|it| it.first() == Some(&server)).expect("a row");
        assert_eq!(row("ours")[1], "200");
        assert_eq!(row("ours")[10..], ["1.00", "1.00", "1.00"]);
        assert_eq!(row("theirs")[10], "0.25");
        assert_eq!(row("theirs")[12], "-");
        assert!(text.contains("not supported: 405 no"), "{text}");
    }

    #[test]
    fn json_lines_contain_whole_counts() {
        let figures = Figures { requests: 3.0, ..Figures::default() };
        let line = record("a", 2, Outcome::Measured(figures, json!({ "lost": 1 })));
        assert!(line.has_wrong_responses());
        let line: Value = serde_json::from_str(&line.json_line()).expect("JSON");
        assert_eq!((&line["requests"], &line["round"]), (&json!(3), &json!(2)));
        assert_eq!(line["extra"]["lost"], 1);
    }
}
