//! What all subcommands take that change policies or grants of a running server.

use clap::Args;
use serde_json::{Value, json};

use super::client::{ClientError, Connection, query};

/// How something is changed.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// What goes into the log with it
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Refuse it if this is not the newest revision by now
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Only check it, and tell what would change
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Change {
    /// Asks the server for it: with what is the same for all changes, in the body if there is one and in the
    /// query if there is none. Returns the answer.
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
