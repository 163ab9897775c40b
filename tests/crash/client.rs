//! [`Client`]: requests to a real server, which may be killed before it responds.
#![allow(dead_code, reason = "each test crate uses only a part of this module")]

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::table::{create_table, set_property};

/// Speaks to one server over HTTP.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    uri: String,
}

/// Outcome of a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The server responded.
    Answered(u16, Value),
    /// The server died: the request may have taken effect or not.
    Lost,
}

impl Reply {
    /// Whether the server acknowledged the request.
    pub fn is_acknowledged(&self) -> bool {
        matches!(self, Self::Answered(200..=299, _))
    }

    /// Returns the body of a response with this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        match self {
            Self::Answered(answered, body) if answered == status => body,
            other => panic!("expected {status}, got {other:?}"),
        }
    }

    /// Returns whether the request succeeded; `None` if the response was lost. Panics on any status
    /// except success and those in `allowed`.
    #[track_caller]
    pub fn done_or(&self, allowed: &[u16]) -> Option<bool> {
        match self {
            Self::Answered(200..=299, _) => Some(true),
            Self::Answered(status, _) if allowed.contains(status) => Some(false),
            Self::Answered(..) => panic!("unexpected answer: {self:?}"),
            Self::Lost => None,
        }
    }
}

impl Client {
    /// Returns a client of the server at this URI.
    pub fn of(uri: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build();
        Self { http: http.expect("a client can be made"), uri: uri.to_owned() }
    }

    /// Sends a request, with a JSON body unless it is null, and an `Idempotency-Key` if given.
    pub async fn send(&self, method: Method, path: &str, body: &Value, key: Option<Uuid>) -> Reply {
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.uri));
        if let Some(key) = key {
            request = request.header("idempotency-key", key.to_string());
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let Ok(response) = request.send().await else { return Reply::Lost };
        let status = response.status().as_u16();
        match response.bytes().await {
            Ok(bytes) if bytes.is_empty() => Reply::Answered(status, Value::Null),
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(body) => Reply::Answered(status, body),
                Err(_) => Reply::Lost,
            },
            Err(_) => Reply::Lost,
        }
    }

    /// Sends a `POST`.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, body, None).await
    }

    /// Sends a `GET`.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &Value::Null, None).await
    }

    /// Returns the metrics of the server whose names contain `part`.
    pub async fn metrics(&self, part: &str) -> String {
        let Ok(response) = self.http.get(format!("{}/metrics", self.uri)).send().await else {
            return "no response".to_owned();
        };
        let text = response.text().await.unwrap_or_default();
        let found = text.lines().filter(|line| line.contains(part) && !line.starts_with('#'));
        found.collect::<Vec<_>>().join("\n")
    }

    /// Whether a table or namespace exists. Panics if the response was lost.
    pub async fn exists(&self, path: &str) -> bool {
        let reply = self.send(Method::HEAD, path, &Value::Null, None).await;
        reply.done_or(&[404]).expect("the server lives")
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) -> Reply {
        self.post("namespaces", &json!({ "namespace": [name] })).await
    }

    /// Creates a table.
    pub async fn create_table(&self, namespace: &str, name: &str) -> Reply {
        self.post(&format!("namespaces/{namespace}/tables"), &create_table(name)).await
    }

    /// Sets a property of a table, with its key as the value.
    pub async fn set(&self, table: &str, key: &str) -> Reply {
        let body = json!({ "requirements": [], "updates": [set_property(key, key)] });
        self.post(table, &body).await
    }

    /// Creates a checkpoint with this name.
    pub async fn checkpoint(&self, name: &str) -> Reply {
        self.post("../management/v1/checkpoints", &json!({ "name": name })).await
    }

    /// Loads a table, which must exist. Returns the response of `loadTable`.
    pub async fn load(&self, table: &str) -> Value {
        self.get(table).await.expect(200)
    }
}
