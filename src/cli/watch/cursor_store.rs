//! [`CursorStore`]: the position of a consumer, which the catalog stores.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::cli::client::{ClientError, Connection, body, child_path, parse};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::print_warnings;
use slateberg_base::write_interval::WriteInterval;
use slateberg_management::cursors::{Cursor, StoreCursorRequest};

pub(crate) const PATH: &str = "/management/v1/watch/cursors";

/// The value with which a watch begins at the oldest change in the log. The first response contains
/// the position that can be stored.
const OLDEST: &str = "oldest";

/// Shortest time between two requests that store the position.
const STORE_PERIOD: Duration = Duration::from_secs(1);

/// A cursor, and the position that has to be stored in it.
pub(super) struct CursorStore<'a> {
    connection: &'a Connection,
    name: String,
    /// Id of this process.
    consumer: Uuid,
    /// Position after the last event that the broker has stored.
    position: String,
    /// Position in the catalog. `None` before the cursor exists.
    stored: Option<String>,
    /// Position of a request whose outcome is unknown. The request is repeated before another
    /// position is stored.
    unknown: Option<String>,
    interval: WriteInterval,
}

/// Returns the cursor with this name. `None` if it does not exist.
pub(super) async fn load(
    connection: &Connection,
    name: &str,
) -> Result<Option<Cursor>, ClientError> {
    match connection.send("GET", &child_path(PATH, name), &Value::Null).await {
        Ok(response) => parse(response).map(Some),
        Err(ClientError::Rejected { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> CursorStore<'a> {
    /// Continues at the position of an existing cursor.
    pub(super) fn at(connection: &'a Connection, consumer: Uuid, cursor: Cursor) -> Self {
        let Cursor { name, position, .. } = cursor;
        let (stored, unknown) = (Some(position.clone()), None);
        let interval = WriteInterval::new(STORE_PERIOD);
        Self { connection, name, consumer, position, stored, unknown, interval }
    }

    /// Creates a cursor at a position. A cursor at `oldest` is created with its first position.
    pub(super) async fn create(
        connection: &'a Connection,
        consumer: Uuid,
        name: String,
        position: String,
    ) -> Result<Self, Failure> {
        let (stored, unknown) = (None, None);
        let interval = WriteInterval::new(STORE_PERIOD);
        let mut created = Self { connection, name, consumer, position, stored, unknown, interval };
        created.put().await.map_err(|error| created.failed(error))?;
        Ok(created)
    }

    pub(super) fn position(&self) -> &str {
        &self.position
    }

    /// Advances the position, and schedules its storage.
    pub(super) fn advance(&mut self, position: String) {
        if position != self.position {
            self.position = position;
            self.interval.changed();
        }
    }

    /// Waits until the position has to be stored.
    pub(super) async fn wait_due(&self) {
        self.interval.wait().await;
    }

    /// Stores the position if this is due. If the server is not available, a later call stores it.
    pub(super) async fn store_if_due(&mut self) -> Result<(), Failure> {
        if !self.interval.is_due() {
            return Ok(());
        }
        match self.put().await {
            Err(error) if error.is_temporary() => {
                let name = &self.name;
                print_warnings(&[format!("cannot store the cursor {name}: {error}. Retrying")]);
                self.interval.written();
                self.interval.changed();
                Ok(())
            }
            other => other.map_err(|error| self.failed(error)),
        }
    }

    /// Stores the position before the process ends.
    pub(super) async fn store_last(&mut self) -> Result<(), Failure> {
        self.put().await.map_err(|error| self.failed(error))
    }

    /// Stores the position, after the position of a request whose outcome is unknown.
    async fn put(&mut self) -> Result<(), ClientError> {
        while self.position != OLDEST && self.stored.as_ref() != Some(&self.position) {
            let position = self.unknown.clone().unwrap_or_else(|| self.position.clone());
            // The request may also be cancelled by a stop signal.
            self.unknown = Some(position.clone());
            let request = StoreCursorRequest {
                position,
                previous: self.stored.clone(),
                consumer: self.consumer,
            };
            let path = child_path(PATH, &self.name);
            match self.connection.send("PUT", &path, &body(&request)?).await {
                Ok(_) => self.stored = self.unknown.take(),
                Err(error) => {
                    if !error.is_temporary() {
                        self.unknown = None;
                    }
                    return Err(error);
                }
            }
        }
        self.interval.written();
        Ok(())
    }

    fn failed(&self, error: ClientError) -> Failure {
        let name = &self.name;
        match error {
            ClientError::Rejected { status: 409, .. } => Failure::new(
                Exit::InUse,
                format!(
                    "another process advances the cursor {name}, so this one has stopped. Run one process for each \
                     cursor, or use another --name"
                ),
            ),
            ClientError::Rejected { status: 404, .. } => Failure::new(
                Exit::Failed,
                format!("the cursor {name} was deleted, so this process has stopped"),
            ),
            other => Failure::new(other.exit(), format!("cannot store the cursor {name}: {other}")),
        }
    }
}
