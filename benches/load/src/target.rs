//! The measured server: its addresses, and the paths of its API.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use hyper::header::HeaderValue;
use serde_json::Value;

use super::connection::{Call, CallError, CallResponse, Connection};

/// A server of the command line: `NAME=URL[+URL][,pid=PID][,warehouse=W][,token=T]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name in reports.
    pub name: String,
    /// URL of the catalog, or the URLs of all members of a cluster. All URLs have the same path.
    pub urls: Vec<String>,
    /// Processes of the server, if they run on this machine.
    pub pids: Vec<u32>,
    /// Warehouse to use.
    pub warehouse: Option<String>,
    /// Bearer token.
    pub token: Option<String>,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or("expected NAME=URL")?;
        let mut parts = rest.split(',');
        let urls = parts.next().unwrap_or_default().split('+').map(ToOwned::to_owned).collect();
        let (pids, warehouse, token) = (Vec::new(), None, None);
        let mut server = Self { name: name.to_owned(), urls, pids, warehouse, token };
        server.split_urls().map_err(|error| error.to_string())?;
        for part in parts {
            match part.split_once('=') {
                Some(("pid", pid)) => {
                    server.pids.push(pid.parse().map_err(|_| format!("not a process id: {pid}"))?);
                }
                Some(("warehouse", warehouse)) => server.warehouse = Some(warehouse.to_owned()),
                Some(("token", token)) => server.token = Some(token.to_owned()),
                _ => return Err(format!("expected pid=, warehouse= or token=, got {part}")),
            }
        }
        Ok(server)
    }
}

impl Server {
    /// Splits each URL into `host:port` and the path.
    fn split_urls(&self) -> Result<Vec<(String, String)>, TargetError> {
        let split = |url: &String| split_url(url).ok_or_else(|| TargetError::Url(url.clone()));
        self.urls.iter().map(split).collect()
    }
}

/// A catalog under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name in reports.
    pub name: String,
    /// Prefix of all names that a run creates.
    pub run: String,
    /// `host:port`, of each member if the catalog is a cluster.
    pub addresses: Vec<String>,
    /// Path before `/namespaces`: the base path of the URL, `/v1` and the prefix.
    pub base: String,
    /// Value of the `Authorization` header.
    pub authorization: Option<HeaderValue>,
    /// The server's processes, if they run on this machine.
    pub pids: Vec<u32>,
    /// Whether it is the bare handler, which only supports `GET`.
    pub is_bare: bool,
    /// Number of prepared objects, by kind.
    prepared: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// Reason why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The URL is not `http://host[:port][/base]`.
    #[error("expected http://host[:port][/base], got {0}")]
    Url(String),
    /// The server does not respond.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The response has an unexpected status.
    #[error("{what} got status {status}: {body}")]
    UnexpectedStatus {
        /// Method and path of the request.
        what: String,
        /// Status of the response.
        status: u16,
        /// Beginning of the body.
        body: String,
    },
    /// The server cannot be measured, for this reason.
    #[error("{0}")]
    Unsupported(String),
}

impl Target {
    /// Reads a server's configuration, which determines the paths of its namespaces.
    pub async fn discover(server: &Server, run: String) -> Result<Self, TargetError> {
        let (addresses, bases): (Vec<_>, Vec<_>) = server.split_urls()?.into_iter().unzip();
        let base = bases.first().cloned().unwrap_or_default();
        let bearer = server.token.as_ref().map(|token| format!("Bearer {token}"));
        let authorization = bearer
            .map(|bearer| HeaderValue::from_str(&bearer))
            .transpose()
            .map_err(|error| TargetError::Unsupported(format!("token not usable: {error}")))?;
        let mut target = Self {
            name: server.name.clone(),
            run,
            addresses,
            base: format!("{base}/v1"),
            authorization,
            pids: server.pids.clone(),
            is_bare: false,
            prepared: Arc::default(),
        };
        let query =
            server.warehouse.as_ref().map(|it| format!("?warehouse={it}")).unwrap_or_default();
        let config = target.request(Call::get(format!("{base}/v1/config{query}"))).await?;
        let config: Value = serde_json::from_slice(&config.body).unwrap_or_default();
        let prefix = ["overrides", "defaults"].iter().find_map(|it| config[it]["prefix"].as_str());
        if let Some(prefix) = prefix {
            target.base = format!("{base}/v1/{prefix}");
        }
        Ok(target)
    }

    /// Returns a target for the bare handler at this address, in place of a catalog.
    pub fn bare(like: &Self, address: String, pid: u32) -> Self {
        Self {
            name: BARE_NAME.to_owned(),
            addresses: vec![address],
            pids: vec![pid],
            is_bare: true,
            prepared: Arc::default(),
            ..like.clone()
        }
    }

    /// `host:port` of the first member.
    pub fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// Opens a connection to the first member.
    pub async fn connect(&self) -> Result<Connection, CallError> {
        self.connect_in_turn(0).await
    }

    /// Opens the connection with this number. The numbers are assigned to the members in turn.
    pub async fn connect_in_turn(&self, number: usize) -> Result<Connection, CallError> {
        let address = &self.addresses[number % self.addresses.len()];
        Connection::open(address, self.authorization.as_ref()).await
    }

    /// Sends one request over a new connection. Errors if the request fails.
    pub async fn request(&self, call: Call) -> Result<CallResponse, TargetError> {
        let response = self.send(call.clone()).await?;
        if response.is_success() { Ok(response) } else { Err(unexpected_status(&call, &response)) }
    }

    /// Creates an object, unless it already exists.
    pub async fn create(&self, call: Call) -> Result<(), TargetError> {
        let response = self.send(call.clone()).await?;
        let exists = response.is_success() || response.status == CONFLICT;
        if exists { Ok(()) } else { Err(unexpected_status(&call, &response)) }
    }

    async fn send(&self, call: Call) -> Result<CallResponse, TargetError> {
        Ok(self.connect().await?.call(&call.keeping_body()).await?)
    }

    /// Number of prepared objects of this kind.
    pub fn prepared(&self, what: &str) -> usize {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.get(what).copied().unwrap_or_default()
    }

    /// Records the number of prepared objects of a kind.
    pub fn set_prepared(&self, what: &str, count: usize) {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(what.to_owned(), count);
    }

    /// Returns a name that is unique to this run.
    pub fn unique_name(&self, name: &str) -> String {
        format!("{}_{name}", self.run)
    }

    /// Path of the namespaces.
    pub fn namespaces(&self) -> String {
        format!("{}/namespaces", self.base)
    }

    /// Path of a namespace.
    pub fn namespace(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}", self.base)
    }

    /// Path of a namespace's tables.
    pub fn tables(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/tables", self.base)
    }

    /// Path of a table.
    pub fn table(&self, namespace: &str, table: &str) -> String {
        format!("{}/namespaces/{namespace}/tables/{table}", self.base)
    }
}

/// Name of the bare handler in reports.
pub const BARE_NAME: &str = "bare handler";
/// Status of the response if the object to create already exists.
pub const CONFLICT: u16 = 409;

fn unexpected_status(call: &Call, response: &CallResponse) -> TargetError {
    TargetError::UnexpectedStatus {
        what: describe(&call.method, &call.path),
        status: response.status,
        body: response.excerpt(),
    }
}

fn describe(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

/// Splits `http://host[:port][/path]` into `host:port`, and the path without a trailing slash.
pub fn split_url(url: &str) -> Option<(String, String)> {
    let rest = url.strip_prefix("http://")?.trim_end_matches('/');
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() {
        return None;
    }
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    Some((address, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_argument_has_a_name_a_url_and_options() {
        let plain: Server = "ours=http://127.0.0.1:8181".parse().expect("valid");
        assert_eq!(plain.name, "ours");
        assert_eq!(plain.urls, ["http://127.0.0.1:8181"]);
        assert_eq!((plain.pids, plain.warehouse, plain.token), (vec![], None, None));
        let full: Server =
            "a=http://h/catalog,pid=12,warehouse=w=1,token=a.b=,pid=13".parse().expect("valid");
        assert_eq!(full.pids, [12, 13]);
        assert_eq!(full.warehouse.as_deref(), Some("w=1"));
        assert_eq!(full.token.as_deref(), Some("a.b="));
    }

    #[test]
    fn server_argument_with_several_urls_is_a_cluster() {
        let cluster: Server = "a=http://h:1/c+http://h:2/c,pid=1,pid=2".parse().expect("valid");
        assert_eq!(cluster.urls, ["http://h:1/c", "http://h:2/c"]);
        assert_eq!(cluster.pids, [1, 2]);
    }

    #[test]
    fn invalid_server_argument_is_rejected() {
        for invalid in [
            "ours",
            "a=h:1",
            "a=https://h",
            "a=http://",
            "a=http://h+",
            "a=http://h,x=1",
            "a=http://h,pid=x",
        ] {
            assert!(invalid.parse::<Server>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn split_url_adds_the_port_and_strips_the_slash() {
        let split = |url| split_url(url).expect("valid");
        assert_eq!(split("http://h"), ("h:80".to_owned(), String::new()));
        assert_eq!(split("http://h:1/a/b/"), ("h:1".to_owned(), "/a/b".to_owned()));
    }
}
