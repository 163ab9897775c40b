//! The options shared by all subcommands that change policies or grants of a running server.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::client::{self, ClientError, Connection, query};

/// The options of a change.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// Comment recorded in the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Fail unless REVISION is still the latest revision of policies and grants
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Validate the change and print it, without applying it
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Change {
    /// Sends a change and returns the response. `body` creates the body of the request from the
    /// comment and the expected revision.
    pub(super) async fn send<B: Serialize>(
        &self,
        method: &str,
        path: &str,
        body: impl FnOnce(Option<String>, Option<u64>) -> B,
    ) -> Result<Value, ClientError> {
        let path = format!("{path}{}", query(&[self.dry_run_parameter()]));
        let body = client::body(&body(self.comment.clone(), self.expect))?;
        self.connection.send(method, &path, &body).await
    }

    /// Sends a deletion with the options in its query string, and returns the response.
    pub(super) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        let query = query(&[
            self.dry_run_parameter(),
            ("comment", self.comment.clone()),
            ("expected_revision", self.expect.map(|expected| expected.to_string())),
        ]);
        self.connection.send("DELETE", &format!("{path}{query}"), &Value::Null).await
    }

    fn dry_run_parameter(&self) -> (&'static str, Option<String>) {
        ("dry_run", self.dry_run.then(|| "true".to_owned()))
    }
}
