//! Scans that a server plans, with all their plan tasks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use memchr::memmem::{find, find_iter};
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Value, json};
use tokio::task::JoinSet;

use crate::connection::{Call, CallError, Connection, RESPONSE_TIMEOUT};
use crate::target::{Target, TargetError};

/// Number of connections that fetch the plan tasks of a scan.
const CONNECTIONS: usize = 8;
/// Pause between requests for the result of an asynchronous plan.
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// Member before each data file of a response.
const DATA_FILE: &[u8] = b"\"data-file\":";

/// A table, and the server that plans its scans.
pub(super) struct Planner<'a> {
    pub(super) target: &'a Target,
    pub(super) path: String,
}

/// A scan whose plan tasks were fetched.
pub(super) struct Scanned {
    pub(super) files: u64,
    pub(super) plan_tasks: u64,
    /// Size of the responses with files.
    pub(super) bytes: u64,
    /// Time from the request until the last response.
    pub(super) duration: Duration,
}

impl Planner<'_> {
    /// Returns the request for a plan.
    pub(super) fn request(&self, filter: &Value, statistics: &[&str]) -> Call {
        let body = json!({ "filter": filter, "stats-fields": statistics });
        Call::post(format!("{}/plan", self.path), body.to_string()).keeping_body()
    }

    /// Plans a scan over the first of these connections, and fetches all its plan tasks. Opens
    /// further connections if there are several plan tasks.
    pub(super) async fn scan(
        &self,
        connections: &mut Vec<Connection>,
        call: &Call,
    ) -> Result<Scanned, TargetError> {
        let began = Instant::now();
        let mut connection = self.connection(connections).await?;
        let (plan, id) = self.plan(&mut connection, call).await?;
        connections.push(connection);
        let (files, bytes, duration) = (plan.files, plan.bytes, began.elapsed());
        let mut scanned = Scanned { files, plan_tasks: 0, bytes, duration };
        let (mut tasks, mut fetching) = (plan.plan_tasks, JoinSet::new());
        loop {
            while fetching.len() < CONNECTIONS
                && let Some(task) = tasks.pop()
            {
                let mut connection = self.connection(connections).await?;
                let body = json!({ "plan-task": task }).to_string();
                let call = Call::post(format!("{}/tasks", self.path), body).keeping_body();
                fetching.spawn(async move {
                    let body = checked(&mut connection, &call).await?;
                    let arrived = began.elapsed();
                    Ok::<_, TargetError>((connection, Page::read(&body), arrived))
                });
            }
            let Some(fetched) = fetching.join_next().await else { break };
            let (connection, page, arrived) =
                fetched.map_err(|error| TargetError::Unsupported(error.to_string()))??;
            connections.push(connection);
            tasks.extend(page.plan_tasks);
            scanned.files += page.files;
            scanned.bytes += page.bytes;
            scanned.plan_tasks += 1;
            scanned.duration = scanned.duration.max(arrived);
        }
        if let Some(id) = id {
            self.cancel(connections, &id).await?;
        }
        Ok(scanned)
    }

    /// Returns the first response with files, and the id of the plan. Errors if the plan takes longer
    /// than a response may take.
    async fn plan(
        &self,
        connection: &mut Connection,
        call: &Call,
    ) -> Result<(Page, Option<String>), TargetError> {
        let began = Instant::now();
        let mut page = Page::read(&checked(connection, call).await?);
        let id = page.id.take();
        while page.status.as_deref() == Some("submitted")
            && let Some(id) = &id
        {
            if began.elapsed() > RESPONSE_TIMEOUT {
                return Err(CallError::Timeout.into());
            }
            tokio::time::sleep(POLL_PAUSE).await;
            let result = Call::get(format!("{}/plan/{id}", self.path)).keeping_body();
            page = Page::read(&checked(connection, &result).await?);
        }
        match page.status.as_deref() {
            Some("completed") => Ok((page, id)),
            status => Err(TargetError::Unsupported(format!("the status of a plan is {status:?}"))),
        }
    }

    /// Cancels a plan, as clients do at the end of a scan. A server may store the plan until then.
    async fn cancel(&self, connections: &mut [Connection], id: &str) -> Result<(), TargetError> {
        let call = Call::new(Method::DELETE, format!("{}/plan/{id}", self.path));
        match connections.first_mut() {
            Some(connection) => checked(connection, &call).await.map(drop),
            None => Ok(()),
        }
    }

    async fn connection(&self, idle: &mut Vec<Connection>) -> Result<Connection, TargetError> {
        match idle.pop() {
            Some(connection) => Ok(connection),
            None => Ok(self.target.connect().await?),
        }
    }
}

/// The members of a response that the load generator uses. A parser of the complete response would
/// take longer than the server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    files: u64,
    /// Size of the response.
    bytes: u64,
    status: Option<String>,
    id: Option<String>,
    plan_tasks: Vec<String>,
}

impl Page {
    fn read(body: &[u8]) -> Self {
        // The other members are before or after all files.
        let (mut files, mut first, mut last) = (0, body.len(), body.len());
        for at in find_iter(body, DATA_FILE) {
            (files, first, last) = (files + 1, first.min(at), at);
        }
        let around = [&body[..first], &body[last..]];
        Self {
            files,
            bytes: body.len() as u64,
            status: member(around, "status"),
            id: member(around, "plan-id"),
            plan_tasks: member(around, "plan-tasks").unwrap_or_default(),
        }
    }
}

/// Returns the value of a member in the first of these parts of a response that has the member.
fn member<T: DeserializeOwned>(parts: [&[u8]; 2], name: &str) -> Option<T> {
    let key = format!("\"{name}\":");
    parts.into_iter().find_map(|part| {
        let value = &part[find(part, key.as_bytes())? + key.len()..];
        Deserializer::from_slice(value).into_iter().next()?.ok()
    })
}

/// Sends a request. Errors if the response is not successful.
pub(super) async fn checked(
    connection: &mut Connection,
    call: &Call,
) -> Result<Bytes, TargetError> {
    let response = connection.call(call).await?;
    match response.is_success() {
        true => Ok(response.body),
        false => Err(unexpected(call, response.status, response.excerpt())),
    }
}

/// Returns the error for a status that is not expected.
pub(super) fn unexpected(call: &Call, status: u16, body: String) -> TargetError {
    TargetError::UnexpectedStatus { what: format!("{} {}", call.method, call.path), status, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_before_and_after_the_files() {
        let before = br#"{"status":"completed","plan-id":"a","plan-tasks":["b","c"],
            "file-scan-tasks":[{"data-file":{"x":"plan-id"}},{"data-file":{}}]}"#;
        let after = br#"{"file-scan-tasks":[{"data-file":{}},{"data-file":{}}],
            "plan-tasks":["b","c"],"plan-id":"a","status":"completed"}"#;
        for body in [&before[..], after] {
            let page = Page {
                files: 2,
                bytes: body.len() as u64,
                status: Some("completed".to_owned()),
                id: Some("a".to_owned()),
                plan_tasks: vec!["b".to_owned(), "c".to_owned()],
            };
            assert_eq!(Page::read(body), page);
        }
    }

    #[test]
    fn response_without_files_and_members_is_empty() {
        let page = Page { files: 0, bytes: 2, status: None, id: None, plan_tasks: Vec::new() };
        assert_eq!(Page::read(b"{}"), page);
    }
}
