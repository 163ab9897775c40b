//! The shapes of bodies of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request that a client wants to send to the store.
#[derive(Debug, Deserialize)]
pub struct RemoteSignRequest {
    /// The region that it goes to.
    pub region: String,
    /// Its URI.
    pub uri: String,
    /// Its method.
    pub method: String,
    /// Its headers.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Its body, where it says what is to be done.
    #[serde(default)]
    pub body: Option<String>,
    /// Which kind of store; S3 if nothing is said.
    #[serde(default)]
    pub provider: Option<String>,
}

/// What the client sends instead. There is a signature in it.
#[derive(Serialize)]
pub struct RemoteSignResult {
    /// The URI.
    pub uri: String,
    /// Headers that go with it.
    pub headers: BTreeMap<String, Vec<String>>,
}
