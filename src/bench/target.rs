//! The server that is measured: where it is, and the paths that it wants.

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use super::connection::{Answer, Call, CallError, Connection};

/// A catalog under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// A name for reports.
    pub name: String,
    /// `host:port`.
    pub host: String,
    /// What stands in front of `/namespaces`: `/v1`, a base path, a prefix.
    pub base: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The server's process, if it runs on this machine.
    pub pid: Option<u32>,
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The URL is not `http://host[:port][/base]`.
    #[error("expected http://host[:port][/base], got {0}")]
    Url(String),
    /// It does not answer.
    #[error("{0}")]
    Call(#[from] CallError),
    /// It answers with something else than what was asked for.
    #[error("{method} {path} was answered {status}: {body}")]
    Refused {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
}

impl Target {
    /// Asks a server for its configuration, and with that where its namespaces are.
    pub async fn discover(
        name: &str,
        uri: &str,
        warehouse: Option<&str>,
        authorization: Option<String>,
        pid: Option<u32>,
    ) -> Result<Self, TargetError> {
        let wrong = || TargetError::Url(uri.to_owned());
        let rest = uri.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let mut target =
            Self { name: name.to_owned(), host, base: format!("{base}/v1"), authorization, pid };
        let query = warehouse.map(|name| format!("?warehouse={name}")).unwrap_or_default();
        let config =
            target.ask(&Call::new(Method::GET, format!("{base}/v1/config{query}"))).await?;
        let config: Value = serde_json::from_slice(&config.body).unwrap_or_default();
        let prefix = ["overrides", "defaults"].iter().find_map(|it| config[it]["prefix"].as_str());
        if let Some(prefix) = prefix {
            target.base = format!("{base}/v1/{prefix}");
        }
        Ok(target)
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Connection, CallError> {
        Connection::open(&self.host, self.authorization.as_deref()).await
    }

    /// Sends one request over a connection of its own, and wants success.
    pub async fn ask(&self, call: &Call) -> Result<Answer, TargetError> {
        let answer = self.connect().await?.call(call).await?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(TargetError::Refused {
            method: call.method.clone(),
            path: call.path.clone(),
            status: answer.status,
            body: beginning(&answer.body),
        })
    }

    /// The path of the namespaces.
    pub fn namespaces(&self) -> String {
        format!("{}/namespaces", self.base)
    }

    /// The path of a namespace.
    pub fn namespace(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}", self.base)
    }

    /// The path of a namespace's tables.
    pub fn tables(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/tables", self.base)
    }

    /// The path of a table.
    pub fn table(&self, namespace: &str, table: &str) -> String {
        format!("{}/namespaces/{namespace}/tables/{table}", self.base)
    }
}

fn beginning(body: &Bytes) -> String {
    const BYTES_MAX: usize = 300;
    String::from_utf8_lossy(&body[..body.len().min(BYTES_MAX)]).into_owned()
}
