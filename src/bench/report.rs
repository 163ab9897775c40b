//! Rows of results, for people and for programs.

use serde_json::json;

use super::load::Measured;

/// A row: which server, which scenario, with how many clients.
pub struct Row<'a> {
    /// The server's name.
    pub server: &'a str,
    /// What was done.
    pub scenario: &'a str,
    /// By how many clients at once.
    pub clients: usize,
    /// What came of it.
    pub measured: &'a Measured,
}

/// The head of the table that [`Row::table_line`] fills.
pub fn table_head() -> String {
    format!(
        "{:<12} {:<28} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8}\n",
        "server",
        "scenario",
        "clients",
        "req/s",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "cpu us/req",
        "MiB",
        "failed"
    )
}

impl Row<'_> {
    /// A line for people.
    pub fn table_line(&self) -> String {
        let measured = self.measured;
        let ms = |micros: u64| micros as f64 / 1000.0;
        let quantile = |q| ms(measured.latencies.value_at_quantile(q));
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
        format!(
            "{:<12} {:<28} {:>7} {:>9.0} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>10} {:>8} {:>8}\n",
            self.server,
            self.scenario,
            self.clients,
            measured.throughput(),
            measured.latencies.mean() / 1000.0,
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            shown(measured.cpu_micros_per_request()),
            shown(measured.peak_mib),
            measured.failures,
        )
    }

    /// A line of JSON.
    pub fn json_line(&self) -> String {
        let measured = self.measured;
        let quantile = |q| measured.latencies.value_at_quantile(q);
        let line = json!({
            "server": self.server,
            "scenario": self.scenario,
            "clients": self.clients,
            "requests": measured.latencies.len(),
            "failures": measured.failures,
            "seconds": measured.elapsed.as_secs_f64(),
            "requests_per_second": measured.throughput(),
            "mean_us": measured.latencies.mean(),
            "p50_us": quantile(0.5),
            "p95_us": quantile(0.95),
            "p99_us": quantile(0.99),
            "max_us": measured.latencies.max(),
            "server_cpu_us_per_request": measured.cpu_micros_per_request(),
            "server_peak_mib": measured.peak_mib,
        });
        format!("{line}\n")
    }
}
