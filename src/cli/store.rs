//! `slateberg store check`: exit code 0 if an object store may be relied on, 1 if not or if it cannot be
//! told.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Common, EX_CONFIG, fail, key_value, print};
use crate::app::build::{BuildError, Seams};
use crate::app::state;
use crate::config::Settings;
use crate::objects::open::Opened;
use crate::objects::probe::probe_state;
use crate::objects::race::{Course, race};

/// How long the probe and one put of a race may take.
const PROBE_MAX: Duration = Duration::from_secs(30);
const PUT_MAX: Duration = Duration::from_secs(30);
/// Findings of one kind that are printed.
const PRINTED_MAX: usize = 10;

/// Try out object stores.
#[derive(Debug, Args)]
pub struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Race many writers for the same names, and see that exactly one of them wins each time
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    /// Where to race: below this URL, which nobody else uses [default: the state's, and its log's]
    url: Option<String>,
    /// An option of the URL's object store, such as `aws_endpoint=http://127.0.0.1:9000`
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value, requires = "url")]
    options: Vec<(String, String)>,
    /// Names that are raced for
    #[arg(long, default_value_t = 100, value_name = "N")]
    rounds: usize,
    /// Writers of each name
    #[arg(long, default_value_t = 32, value_name = "N")]
    writers: usize,
    #[command(flatten)]
    common: Common,
}

impl Store {
    /// Tries the store out and prints what it found.
    pub fn run(self) -> ExitCode {
        let Command::Check(check) = self.command;
        check.common.work(async |settings| {
            let seams = Seams::default();
            let stores = match check.stores(settings, &seams) {
                Ok(stores) => stores,
                Err(error) => return Ok(fail(EX_CONFIG, error)),
            };
            let mut code = ExitCode::SUCCESS;
            for (url, opened) in &stores {
                if !check.check(url, opened, &seams).await {
                    code = ExitCode::FAILURE;
                }
            }
            Ok::<_, BuildError>(code)
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

    /// Whether one store may be relied on.
    async fn check(&self, url: &str, opened: &Opened, seams: &Seams) -> bool {
        print(&format!("checking {url}\n"));
        let id = seams.ids.random();
        match probe_state(opened, id, seams.clock.as_ref(), PROBE_MAX).await {
            Ok(found) => print(&format!(
                "probe: fit for a state; put {:.1} ms, head {:.1} ms, clock {:+.1} s\n",
                found.put.as_secs_f64() * 1e3,
                found.head.as_secs_f64() * 1e3,
                found.clock_ahead_ms as f64 / 1e3,
            )),
            Err(error) => {
                print(&format!("broken: {error}\n"));
                return false;
            }
        }
        let course = Course { rounds: self.rounds, writers: self.writers, put_max: PUT_MAX };
        let outcome = race(opened, id, course).await;
        print(&format!(
            "race: {} names, {} puts, {} of unknown outcome, slowest winner {:.1} ms\n",
            outcome.rounds,
            outcome.puts,
            outcome.unknown,
            outcome.slowest.as_secs_f64() * 1e3,
        ));
        for broken in outcome.broken.iter().take(PRINTED_MAX) {
            print(&format!("broken: {broken}\n"));
        }
        let broken = outcome.broken.len();
        let word = if broken == 0 { "may be relied on" } else { "must not be used" };
        print(&format!("{url} {word}: {broken} findings\n"));
        broken == 0
    }
}
