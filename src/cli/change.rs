//! The options of all subcommands that change policies or grants of a running server.

use clap::Args;
use serde_json::{Value, json};

use super::client::{ClientError, Connection, query};

/// The options of a change.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// Comment recorded in the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Fail unless REVISION is still the latest
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Check the change and print it, without making it
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Change {
    /// Sends the change to the server and returns the response. The common options go into the body, or into
    /// the query of a request without a body.
    pub(super) async fn make(
        &self,
        method: &str,
        path: String,
        mut body: Value,
    ) -> Result<Value, ClientError> {
        let mut asked = vec![("dry_run", self.dry_run.then(|| "true".to_owned()))];
        if body.is_null() {
            let expected = self.expect.map(|expected| expected.to_string());
            asked.extend([("comment", self.comment.clone()), ("expected_revision", expected)]);
        } else {
            body["comment"] = json!(self.comment);
            body["expected-revision"] = json!(self.expect);
        }
        self.connection.send(method, &(path + &query(&asked)), &body).await
    }
}
