//! `slateberg webhook`: the webhooks of a running server.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path};
use super::duration::duration;
use super::exit::Outcome;
use super::output::{lines_of, principal, table, time};
use slateberg_management::webhooks::{
    CreateWebhookRequest, RotateWebhookSecretRequest, SuspendWebhookRequest, Webhook as Info,
    WebhookList, WebhookState, WebhookTest, WebhookWithSecret,
};

const PATH: &str = "/management/v1/webhooks";

/// Create, list, show, suspend, resume, test and delete webhooks.
#[derive(Debug, Args)]
pub struct Webhook {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a webhook and print its secret (shown once)
    Create(Create),
    /// List the webhooks
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a webhook and the state of its delivery
    Show(Named),
    /// Stop sending events. The webhook keeps its position
    Suspend(Suspend),
    /// Continue to send events, with your permissions from now on
    Resume(Named),
    /// Replace the secret and print the new one (shown once)
    Rotate(Rotate),
    /// Send a test event and print whether the receiver accepted it
    Test(Named),
    /// Delete a webhook
    #[command(visible_alias = "rm")]
    Delete(Named),
}

#[derive(Debug, Args)]
struct Create {
    /// Unique name
    name: String,
    /// URL of the receiver, which begins with https://
    #[arg(value_name = "URL")]
    receiver: String,
    /// Send only events about this resource or its contents, as table:WAREHOUSE/LEVEL.../NAME,
    /// view:..., namespace:WAREHOUSE/LEVEL... or warehouse:NAME [default: the whole catalog]
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Send only events of this type, such as table.committed. The type `table` selects all events
    /// of tables. Repeatable
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Begin after this POSITION of the change feed. `oldest` sends all changes in the change log
    /// [default: only new events]
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Named {
    /// Name or ID, as `list` prints them
    webhook: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Suspend {
    /// Name or ID, as `list` prints them
    webhook: String,
    /// Reason for people
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Rotate {
    /// Name or ID, as `list` prints them
    webhook: String,
    /// Time for which the previous secret also signs, such as 7d or 0s [default: 1d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep_previous: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

impl Webhook {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::Create(create) => create.run().await,
                Command::List(list) => list.run().await,
                Command::Show(named) => named.show().await,
                Command::Suspend(suspend) => suspend.run().await,
                Command::Resume(named) => named.resume().await,
                Command::Rotate(rotate) => rotate.run().await,
                Command::Test(named) => named.test().await,
                Command::Delete(named) => named.delete().await,
            }
        })
    }
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, receiver: url, resource, types, after, connection } = self;
        let request = CreateWebhookRequest { name, url, resource, types, after };
        let response = connection.send("POST", PATH, &body(&request)?).await?;
        with_secret(&connection, response)
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        self.connection.render(listed, |listed: WebhookList| {
            let rows: Vec<_> = listed.webhooks.iter().map(row).collect();
            table(["ID", "NAME", "STATE", "EVENTS", "LAG", "LAST DELIVERY", "URL"], &rows)
        })
    }
}

impl Named {
    async fn show(self) -> Result<String, ClientError> {
        let path = child_path(PATH, &self.webhook);
        let response = self.connection.send("GET", &path, &Value::Null).await?;
        self.connection.render(response, details)
    }

    async fn resume(self) -> Result<String, ClientError> {
        let path = format!("{}/resume", child_path(PATH, &self.webhook));
        let response = self.connection.send("POST", &path, &Value::Null).await?;
        self.connection.render(response, details)
    }

    async fn test(self) -> Result<String, ClientError> {
        let path = format!("{}/test", child_path(PATH, &self.webhook));
        let response = self.connection.send("POST", &path, &Value::Null).await?;
        self.connection.render(response, |test: WebhookTest| match test.error {
            None => "the receiver accepted the test event\n".to_owned(),
            Some(error) => format!("the receiver did not accept the test event: {error}\n"),
        })
    }

    async fn delete(self) -> Result<String, ClientError> {
        let path = child_path(PATH, &self.webhook);
        self.connection.send("DELETE", &path, &Value::Null).await?;
        Ok(self.connection.done("deleted", &self.webhook))
    }
}

impl Suspend {
    async fn run(self) -> Result<String, ClientError> {
        let path = format!("{}/suspend", child_path(PATH, &self.webhook));
        let request = SuspendWebhookRequest { reason: self.reason };
        let response = self.connection.send("POST", &path, &body(&request)?).await?;
        self.connection.render(response, details)
    }
}

impl Rotate {
    async fn run(self) -> Result<String, ClientError> {
        let path = format!("{}/rotate", child_path(PATH, &self.webhook));
        let previous_seconds = self.keep_previous.map(|it| it.as_secs());
        let request = RotateWebhookSecretRequest { previous_seconds };
        let response = self.connection.send("POST", &path, &body(&request)?).await?;
        with_secret(&self.connection, response)
    }
}

fn with_secret(connection: &Connection, response: Value) -> Result<String, ClientError> {
    connection.render(response, |WebhookWithSecret { secret, details }| {
        let id = details.id;
        format!("id      {id}\nsecret  {secret}\n\nSave the secret: it is not shown again.\n")
    })
}

fn details(webhook: Info) -> String {
    let delivery = &webhook.delivery;
    let owner = webhook.owner.as_deref();
    let owner = owner.map_or("-".to_owned(), |id| principal(id, webhook.owner_name.as_deref()));
    let mut rows = vec![
        ["id".to_owned(), webhook.id.to_string()],
        ["name".to_owned(), webhook.name.clone()],
        ["url".to_owned(), webhook.url.clone()],
        ["events".to_owned(), events(&webhook)],
        ["state".to_owned(), webhook.state.as_str().to_owned()],
    ];
    if let Some(reason) = &webhook.suspended_reason {
        rows.push(["suspended".to_owned(), format!("{}: {reason}", time(webhook.suspended_at_ms))]);
    }
    rows.extend([
        ["owner".to_owned(), owner],
        ["position".to_owned(), delivery.position.clone()],
        ["lag".to_owned(), lag(&webhook)],
        ["last delivery".to_owned(), time(delivery.delivered_at_ms)],
    ]);
    if let Some(error) = &delivery.last_error {
        let since = time(delivery.failing_since_ms);
        rows.push(["error".to_owned(), error.clone()]);
        rows.push(["failures".to_owned(), format!("{} since {since}", delivery.failures)]);
        rows.push(["next attempt".to_owned(), time(delivery.next_attempt_at_ms)]);
    }
    lines_of(&rows)
}

fn row(webhook: &Info) -> [String; 7] {
    let is_failing = webhook.state == WebhookState::Active && webhook.delivery.failures > 0;
    let state = if is_failing { "failing" } else { webhook.state.as_str() };
    [
        webhook.id.to_string(),
        webhook.name.clone(),
        state.to_owned(),
        events(webhook),
        lag(webhook),
        time(webhook.delivery.delivered_at_ms),
        webhook.url.clone(),
    ]
}

fn events(webhook: &Info) -> String {
    let resource = webhook.resource.as_deref().unwrap_or("catalog");
    match webhook.types.as_slice() {
        [] => resource.to_owned(),
        types => format!("{} of {resource}", types.join(",")),
    }
}

fn lag(webhook: &Info) -> String {
    webhook.delivery.lag_changes.map_or("-".to_owned(), |changes| changes.to_string())
}
