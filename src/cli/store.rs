//! `slateberg store check`: tests whether an object store honors conditional writes. The exit code
//! is 0 if it does, and another one if it does not or if the check cannot finish.

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
use slateberg_objects::open::Opened;
use slateberg_objects::probe::{Findings, ProbeError, probe_state};
use slateberg_objects::race::{Course, Outcome as Races, race};
use slateberg_runtime::error::BuildError;
use slateberg_runtime::seams::Seams;
use slateberg_runtime::state;

/// Timeouts of the probe and of one put of a race.
const PROBE_MAX: Duration = Duration::from_secs(30);
const PUT_MAX: Duration = Duration::from_secs(30);
/// Maximum number of printed findings per store.
const PRINTED_MAX: usize = 10;

/// Test whether an object store honors conditional writes.
#[derive(Debug, Args)]
pub struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let many writers compete for the same names, and check that exactly one wins each time
    Check(Check),
    /// Accept that acknowledged changes at the end of the journal are lost, so that the server
    /// starts again
    AcceptLoss(AcceptLoss),
}

#[derive(Debug, Args)]
struct Check {
    /// URL to write below, which nothing else uses [default: the store of the state, and of its
    /// log]
    url: Option<String>,
    /// Option of the URL's object store, such as `aws_endpoint=http://127.0.0.1:9000`
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value, requires = "url")]
    options: Vec<(String, String)>,
    /// Names to compete for
    #[arg(long, default_value_t = 100, value_name = "N")]
    rounds: usize,
    /// Writers per name
    #[arg(long, default_value_t = 32, value_name = "N")]
    writers: usize,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

/// The result of the check of one store.
struct Checked {
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
        check.common.work(async |settings| {
            let seams = Seams::default();
            let mut all = Vec::new();
            for (url, opened) in check.stores(settings, &seams)? {
                if check.output == Output::Table {
                    print(&format!("checking {url}\n"));
                }
                let checked = check.check(url, &opened, &seams).await;
                if check.output == Output::Table {
                    print(&checked.text());
                }
                all.push(checked);
            }
            if check.output == Output::Json {
                let stores: Vec<_> = all.iter().map(Checked::json).collect();
                print_json(&json!({ "stores": stores }));
            }
            match all.iter().find_map(Checked::failure) {
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
        seams: &Seams,
    ) -> Result<Vec<(String, Opened)>, BuildError> {
        let Some(url) = &self.url else { return state::stores(settings, seams) };
        let options: BTreeMap<_, _> = self.options.iter().cloned().collect();
        Ok(vec![(url.clone(), state::store_at(url, &options, settings, seams)?)])
    }

    async fn check(&self, url: String, opened: &Opened, seams: &Seams) -> Checked {
        let id = seams.ids.random();
        let probe = probe_state(opened, id, seams.clock.as_ref(), PROBE_MAX).await;
        let course = Course { rounds: self.rounds, writers: self.writers, put_max: PUT_MAX };
        let races = match probe {
            Ok(_) => Some(race(opened, id, course).await),
            Err(_) => None,
        };
        Checked { url, probe, races }
    }
}

impl Checked {
    fn failure(&self) -> Option<Failure> {
        let Self { url, probe, races } = self;
        match (probe, races) {
            (Err(error), _) => {
                let exit = if error.may_pass { Exit::Unreachable } else { Exit::Failed };
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
        if let Ok(found) = &self.probe {
            text += &format!(
                "probe: put {:.1} ms, head {:.1} ms, clock {:+.1} s\n",
                milliseconds(found.put),
                milliseconds(found.head),
                found.clock_ahead_ms as f64 / 1e3,
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
            Ok(found) => json!({
                "put-ms": milliseconds(found.put),
                "head-ms": milliseconds(found.head),
                "clock-ahead-ms": found.clock_ahead_ms,
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
