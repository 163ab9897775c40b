//! Request and response bodies of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request that a client wants to send to the object store.
#[derive(Debug, Deserialize)]
pub struct RemoteSignRequest {
    /// Region of the object store.
    pub region: String,
    /// URI of the request.
    pub uri: String,
    /// HTTP method of the request.
    pub method: String,
    /// Headers of the request.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The properties of `remote-signing-config` in the response to the load of the table.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, String>>,
    /// Body of the request, if the request's effect depends on it.
    #[serde(default)]
    pub body: Option<String>,
    /// Kind of the object store. Defaults to S3.
    #[serde(default)]
    pub provider: Option<String>,
}

/// The signed request, which the client sends instead of its own request.
#[derive(Serialize)]
pub struct RemoteSignResult {
    /// URI of the request.
    pub uri: String,
    /// Headers of the request, including the signature.
    pub headers: BTreeMap<String, Vec<String>>,
}
