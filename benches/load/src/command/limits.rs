//! `slateberg-bench bare-read` and `slateberg-bench bare-put`: the limits of reads and of commits.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{JsonLines, Outcome as CommandOutcome, print};
use crate::bare_put::bare_put;
use crate::bare_read;
use crate::report::{Figures, Outcome, Record, summary};
use crate::slow_store::{Stalls, slow};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Sources;
use slateberg_objects::open::{check_options, known_options, laid_over, open_url};

/// Respond to every GET with the response of another URL.
#[derive(Debug, Args)]
pub(super) struct BareRead {
    /// Address and port to listen on. With port 0, the system chooses a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// URL whose response is fetched once and returned to every request
    #[arg(long, value_name = "URL")]
    like: String,
    /// Authorization header of the request to that URL
    #[arg(long, value_name = "VALUE")]
    authorization: Option<String>,
}

impl BareRead {
    /// Serves until a signal arrives.
    pub(super) fn run(self) -> CommandOutcome {
        Runtime::new()?.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(&self) -> Result<(), Box<dyn Error>> {
        let authorization = self.authorization.as_deref();
        let bare = bare_read::BareRead::bind(self.listen, &self.like, authorization).await?;
        print(&bare.announcement()?);
        Ok(bare.serve().await?)
    }
}

/// Put objects of one size, one after the other.
#[derive(Debug, Args)]
pub(super) struct BarePut {
    /// URL of a directory or bucket, such as `file:///tmp/x` or `s3://bucket/path`
    #[arg(long, value_name = "URL")]
    store: String,
    /// Option of the object store, such as `aws_endpoint=http://127.0.0.1:9000`
    #[arg(short = 'o', long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// Size of each object, in bytes
    #[arg(long, default_value_t = 20_000)]
    bytes: usize,
    /// Number of objects in each round
    #[arg(long, default_value_t = 1000)]
    iterations: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds to add to each request to the object store
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Name in the report
    #[arg(long, value_name = "NAME", default_value = "bare put")]
    name: String,
    /// File to append the results to, a line of JSON for each round
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BarePut {
    /// Writes the objects, and prints the durations.
    pub(super) fn run(self) -> CommandOutcome {
        Runtime::new()?.block_on(self.put())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn put(&self) -> Result<(), Box<dyn Error>> {
        let options = self.options.iter().cloned().collect();
        check_options(&self.store, &options)?;
        let ambient = slateberg_config::load(&Sources { config: None })?.ambient_options;
        let all = laid_over(&self.store, known_options(&self.store, &ambient), &options);
        let opened = open_url(&self.store, &all)?;
        let opened = slow(opened, Duration::from_millis(self.latency_ms), Stalls::NONE);
        let mut lines = JsonLines::open(self.json.as_deref())?;
        let mut records = Vec::new();
        for round in 0..self.rounds {
            let run = SystemClock.now_ms().to_string();
            let measured = bare_put(&opened, &run, self.bytes, self.iterations).await?;
            let parameter =
                json!({ "operation": "put", "bytes": self.bytes, "latency_ms": self.latency_ms });
            let record = Record {
                server: self.name.clone(),
                scenario: "bare_put",
                title: format!("bare_put {} bytes, {} ms", self.bytes, self.latency_ms),
                parameter,
                clients: 1,
                connections: 1,
                round,
                outcome: Outcome::Measured(Figures::of(&measured), json!({ "store": self.store })),
            };
            print(&record.progress_line());
            lines.add(&record.json_line());
            records.push(record);
        }
        print(&summary(&records));
        Ok(lines.close()?)
    }
}

/// Splits `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = split.ok_or_else(|| format!("expected KEY=VALUE, got '{text}'"))?;
    Ok((key.to_owned(), value.to_owned()))
}
