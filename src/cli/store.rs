//! `slateberg store check`: tests whether an object store honors conditional writes. The exit code
//! is 0 only if the check finishes and finds no violation.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use serde_json::{Value, json};

use super::accept_loss::AcceptLoss;
use super::arguments::Common;
use super::arguments::key_value;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use slateberg_config::Settings;
use slateberg_objects::conditional_put_test::{Course, Outcome as Races, race};
use slateberg_objects::open::Opened;
use slateberg_objects::probe::{Findings, ProbeError, probe_state};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::state;

/// Timeouts of the probe, and of one put in a race of writers.
const PROBE_MAX: Duration = Duration::from_secs(30);
const PUT_MAX: Duration = Duration::from_secs(30);
/// Maximum number of findings printed for one store.
const PRINTED_MAX: usize = 10;

/// Test an object store, or let a server start even though its local write-ahead log has lost
/// changes.
#[derive(Debug, Args)]
pub struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let many writers create and replace the same objects at the same time, and check that
    /// exactly one wins each time
    Check(Check),
    /// Let a server start even though its local write-ahead log has lost acknowledged changes at its
    /// end
    AcceptLoss(AcceptLoss),
}

#[derive(Debug, Args)]
struct Check {
    /// URL of an unused path below which the check writes objects [default: check the object stores
    /// of the state and of its write-ahead log]
    url: Option<String>,
    /// Option of the URL's object store, such as `aws_endpoint=http://127.0.0.1:9000`
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value, requires = "url")]
    options: Vec<(String, String)>,
    /// Number of objects that the writers compete for
    #[arg(long, default_value_t = 100, value_name = "N")]
    rounds: usize,
    /// Number of writers per object
    #[arg(long, default_value_t = 32, value_name = "N")]
    writers: usize,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

/// The result of the check of one store.
struct StoreCheck {
    url: String,
    probe: Result<Findings, ProbeError>,
    races: Option<Races>,
}

impl Store {
    /// Checks the store and prints the result.
    pub fn run(self) -> Outcome {
        let check = match self.command {
            Command::Check(check) => check,
            Command::AcceptLoss(accept) => return accept.run(),
        };
        check.common.run_offline(async |settings| {
            let dependencies = Dependencies::default();
            let mut all = Vec::new();
            for (url, opened) in check.stores(settings, &dependencies)? {
                if check.output == Output::Table {
                    print(&format!("checking {url}\n"));
                }
                let checked = check.check(url, &opened, &dependencies).await;
                if check.output == Output::Table {
                    print(&checked.text());
                }
                all.push(checked);
            }
            if check.output == Output::Json {
                let stores: Vec<_> = all.iter().map(StoreCheck::json).collect();
                print_json(&json!({ "stores": stores }));
            }
            match all.iter().find_map(StoreCheck::failure) {
                Some(failure) => Err(failure),
                None => Ok(ExitCode::SUCCESS),
            }
        })
    }
}

impl Check {
    fn stores(
        &self,
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Vec<(String, Opened)>, BuildError> {
        let Some(url) = &self.url else { return state::stores(settings, dependencies) };
        let options: BTreeMap<_, _> = self.options.iter().cloned().collect();
        Ok(vec![(url.clone(), state::store_at(url, &options, settings, dependencies)?)])
    }

    async fn check(&self, url: String, opened: &Opened, dependencies: &Dependencies) -> StoreCheck {
        let id = dependencies.ids.random();
        let probe = probe_state(opened, id, dependencies.clock.as_ref(), PROBE_MAX).await;
        let course = Course { rounds: self.rounds, writers: self.writers, put_max: PUT_MAX };
        let races = match probe {
            Ok(_) => Some(race(opened, id, course).await),
            Err(_) => None,
        };
        StoreCheck { url, probe, races }
    }
}

impl StoreCheck {
    fn failure(&self) -> Option<Failure> {
        let Self { url, probe, races } = self;
        match (probe, races) {
            (Err(error), _) => {
                let exit = if error.is_transient { Exit::Unreachable } else { Exit::Failed };
                Some(Failure::new(exit, format!("{url} cannot hold a catalog: {error}")))
            }
            (_, Some(races)) if !races.broken.is_empty() => {
                let why = "it does not honor conditional writes: see the output";
                Some(Failure::new(Exit::Failed, format!("{url} cannot hold a catalog: {why}")))
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Ok(findings) = &self.probe {
            text += &format!(
                "probe: put {:.1} ms, head {:.1} ms, clock {:+.1} s\n",
                milliseconds(findings.put),
                milliseconds(findings.head),
                findings.clock_ahead_ms as f64 / 1e3,
            );
        }
        let Some(races) = &self.races else { return text };
        let Races { rounds, puts, unknown, broken, slowest } = races;
        for finding in broken.iter().take(PRINTED_MAX) {
            text += &format!("broken: {finding}\n");
        }
        let (result, winners) = match broken.len() {
            0 => ("passed", "no double winner".to_owned()),
            1 => ("failed", "1 finding".to_owned()),
            count => ("failed", format!("{count} findings")),
        };
        text += &format!(
            "{result}: {rounds} races, {puts} writes ({unknown} of unknown outcome), {winners}; \
             slowest winner {:.1} ms\n",
            milliseconds(*slowest),
        );
        text
    }

    fn json(&self) -> Value {
        let Self { url, probe, races } = self;
        let probe = match probe {
            Ok(findings) => json!({
                "put-ms": milliseconds(findings.put),
                "head-ms": milliseconds(findings.head),
                "clock-ahead-ms": findings.clock_ahead_ms,
            }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let races = races.as_ref().map(|races| {
            json!({
                "races": races.rounds,
                "writes": races.puts,
                "unknown": races.unknown,
                "slowest-winner-ms": milliseconds(races.slowest),
                "broken": races.broken,
            })
        });
        json!({ "url": url, "passed": self.failure().is_none(), "probe": probe, "race": races })
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
