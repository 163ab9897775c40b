//! `slateberg watch`: the changes of the catalog as they happen, on the terminal or in a message
//! broker.

pub(super) mod cursor_store;
mod delivery;
mod feed;
mod sink;
mod target;

use std::process::ExitCode;

use clap::Args;

use self::feed::{Feed, backoff};
use self::target::Target;
use super::client::{ClientError, Connection};
use super::exit::Outcome;
use super::output::{Output, add_times, print, print_warnings, time};
use super::runtime::runtime;
use slateberg_management::watch::{ResourceState, WatchEvent, WatchResponse, WatchedResource};

/// Number of events in a response, for the terminal and for a message broker. Between responses,
/// the position of a broker advances.
const PRINTED_EVENTS_MAX: usize = 1000;
const SENT_EVENTS_MAX: usize = 100;
/// Print changes as they happen, until interrupted, or send them to a message broker.
///
/// If the server becomes unreachable, the command retries until the server responds, and then prints
/// all changes that it has missed. The command fails if the catalog was restored, or if changes were
/// removed from the change log before the command could read them.
///
/// With --to, the command sends each event to a stream of NATS or a topic of Kafka, at least once
/// and in order. The catalog stores its position under the name of --name, so the command continues
/// after the last event when it is started again, on any machine.
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
    /// Send the events to this broker instead of printing them: nats://HOST:PORT/SUBJECT,
    /// tls://HOST:PORT/SUBJECT (NATS with TLS) or kafka://HOST:PORT/TOPIC. Separate several hosts by
    /// commas. Credentials come from variables such as `NATS_CREDS` and `KAFKA_SASL_PASSWORD`
    #[arg(long, value_name = "URL", requires = "name")]
    to: Option<Target>,
    /// Name of the cursor, under which the catalog stores the position. If it exists, the command
    /// continues at its position, and --after has no effect
    #[arg(long, value_name = "NAME", requires = "to")]
    name: Option<String>,
    /// Exit after the last event instead of waiting for new ones
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Watch {
    /// Prints or sends the events.
    pub fn run(self) -> Outcome {
        let Self { resource, types, after, to, name, no_wait, connection } = self;
        let is_sent = to.is_some();
        let max = if is_sent { SENT_EVENTS_MAX } else { PRINTED_EVENTS_MAX };
        let feed = Feed { connection, resource, types, no_wait, max };
        runtime()?.block_on(async {
            match (to, name) {
                (Some(target), Some(name)) => delivery::run(feed, target, name, after).await,
                _ => Ok(feed.print_events(after).await?),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Feed {
    async fn print_events(&self, mut after: Option<String>) -> Result<(), ClientError> {
        let mut is_reached = false;
        let mut delays = backoff();
        loop {
            let response = match self.poll(after.as_deref()).await {
                // If the server has never responded, its address is probably wrong.
                Err(ClientError::Unreachable(reason)) if is_reached && !self.no_wait => {
                    print_warnings(&[format!("{reason}. Retrying")]);
                    delays.wait().await;
                    continue;
                }
                response => response?,
            };
            is_reached = true;
            delays = backoff();
            let WatchResponse { events, next, caught_up } = response;
            for event in &events {
                print(&self.line(event));
            }
            if self.no_wait && caught_up {
                return Ok(());
            }
            after = Some(next);
        }
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
