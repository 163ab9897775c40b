//! `slateberg watch`: the changes of the catalog as they happen.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{ClientError, Connection, parse, query};
use super::exit::Outcome;
use super::output::{Output, add_times, print, print_warnings, time};
use super::runtime::runtime;
use slateberg_base::retry::Backoff;
use slateberg_management::watch::{ResourceState, WatchEvent, WatchResponse, WatchedResource};

const PATH: &str = "/management/v1/watch";

/// Time for which the server waits for events before it responds.
const WAIT_SECONDS: u64 = 30;
/// The shortest and the longest wait before the next attempt to reach the server.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Print changes as they happen, until interrupted.
///
/// If the server becomes unreachable, the command retries until the server responds, and then prints
/// all changes that it has missed. The command fails if the catalog was restored, or if changes were
/// removed from the change log before the command could read them.
#[derive(Debug, Args)]
pub struct Watch {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME, view:..., namespace:WAREHOUSE/LEVEL... or
    /// warehouse:NAME. A namespace or warehouse includes everything in it. A table, view or
    /// namespace need not exist yet [default: the whole catalog]
    resource: Option<String>,
    /// Print only events of this type, such as table.committed. The type `table` selects all events
    /// of tables. Repeatable
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Print the events after this POSITION, which is the `position` of an earlier event in the
    /// JSON output. `oldest` prints all changes in the change log [default: only new events]
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// Exit after the last event instead of waiting for new ones
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Watch {
    /// Prints the events.
    pub fn run(self) -> Outcome {
        runtime()?.block_on(self.follow())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn follow(&self) -> Result<(), ClientError> {
        let mut after = self.after.clone();
        let mut is_reached = false;
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            let response = match self.poll(after.as_deref()).await {
                // If the server has never responded, its address is probably wrong.
                Err(ClientError::Unreachable(reason)) if is_reached && !self.no_wait => {
                    print_warnings(&[format!("{reason}. Retrying")]);
                    backoff.wait().await;
                    continue;
                }
                response => response?,
            };
            is_reached = true;
            backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
            let WatchResponse { events, next, caught_up } = parse(response)?;
            for event in &events {
                print(&self.line(event));
            }
            if self.no_wait && caught_up {
                return Ok(());
            }
            after = Some(next);
        }
    }

    async fn poll(&self, after: Option<&str>) -> Result<Value, ClientError> {
        let wait = if self.no_wait { 0 } else { WAIT_SECONDS };
        let mut parameters = query(&[
            ("resource", self.resource.clone()),
            ("after", after.map(ToOwned::to_owned)),
            ("wait", Some(wait.to_string())),
        ]);
        for event_type in &self.types {
            let one = query(&[("type", Some(event_type.clone()))]);
            parameters.push_str(&one.replacen('?', "&", 1));
        }
        self.connection.send("GET", &format!("{PATH}{parameters}"), &Value::Null).await
    }

    fn line(&self, event: &WatchEvent) -> String {
        if self.connection.output == Output::Json {
            let mut value = serde_json::to_value(event).unwrap_or_default();
            add_times(&mut value);
            return format!("{value}\n");
        }
        text(event)
    }
}

/// Formats an event for people.
fn text(event: &WatchEvent) -> String {
    let name = event.resource.as_ref().map(name_of).unwrap_or_default();
    let name = match &event.warehouse {
        Some(warehouse) if *warehouse != name => format!("{warehouse}: {name}"),
        _ => name,
    };
    let mut details = Vec::new();
    if let Some(ResourceState { namespace: Some(namespace), name: Some(name), .. }) = &event.before
    {
        details.push(format!("was {}.{name}", namespace.join(".")));
    }
    details.extend(event.operations.iter().cloned());
    details.extend(event.snapshots.iter().map(|(branch, snapshot)| format!("{branch}={snapshot}")));
    if let Some(principal) = event.principal_name.as_ref().or(event.principal.as_ref()) {
        details.push(format!("by {principal}"));
    }
    if event.event_type == "resync" {
        details.push("the resources that you may see may have changed: list them again".to_owned());
    }
    let (at, details) = (time(event.at_ms), details.join(" "));
    let line = format!("{at:20}  {:20}  {name}  {details}", event.event_type);
    format!("{}\n", line.trim_end())
}

fn name_of(resource: &WatchedResource) -> String {
    let levels = resource.namespace.iter().chain(&resource.name);
    levels.map(String::as_str).collect::<Vec<_>>().join(".")
}
