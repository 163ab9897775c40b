//! [`Feed`]: requests the events of the change feed from a running server.

use std::time::Duration;

use serde_json::Value;

use crate::cli::client::{ClientError, Connection, parse, query};
use slateberg_base::retry::Backoff;
use slateberg_management::watch::WatchResponse;

const PATH: &str = "/management/v1/watch";

/// Time for which the server waits for events before it responds.
const WAIT_SECONDS: u64 = 30;

/// The shortest and the longest wait before the next attempt to reach the server.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Returns the delays between attempts to reach the server or a broker.
pub(super) fn backoff() -> Backoff {
    Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX)
}

/// The selected events of the change feed.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) connection: Connection,
    pub(super) resource: Option<String>,
    pub(super) types: Vec<String>,
    /// Whether the server responds at once if there are no events.
    pub(super) no_wait: bool,
    /// Number of events after which a response ends.
    pub(super) max: usize,
}

impl Feed {
    /// Returns the events after a position. Without a position, returns the current position and no
    /// events.
    pub(super) async fn poll(&self, after: Option<&str>) -> Result<WatchResponse, ClientError> {
        let wait = if self.no_wait { 0 } else { WAIT_SECONDS };
        let mut parameters = query(&[
            ("resource", self.resource.clone()),
            ("after", after.map(ToOwned::to_owned)),
            ("wait", Some(wait.to_string())),
            ("max", Some(self.max.to_string())),
        ]);
        for event_type in &self.types {
            let one = query(&[("type", Some(event_type.clone()))]);
            parameters.push_str(&one.replacen('?', "&", 1));
        }
        let path = format!("{PATH}{parameters}");
        parse(self.connection.send("GET", &path, &Value::Null).await?)
    }
}
