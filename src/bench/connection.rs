//! One connection that is kept alive: HTTP/1.1, as little between the caller and the socket as can be.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A request to a catalog.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Its body; empty for none.
    pub body: Bytes,
    /// The `If-None-Match` header, if it has one.
    pub if_none_match: Option<String>,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: Bytes::new(), if_none_match: None }
    }

    /// A `POST` of this JSON.
    pub fn post(path: impl Into<String>, body: &serde_json::Value) -> Self {
        let body = body.to_string().into();
        Self { method: Method::POST, path: path.into(), body, if_none_match: None }
    }
}

/// What a call was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The `ETag` header.
    pub etag: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// Why a call was not answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection broke, or what came over it was no HTTP.
    #[error("the connection failed: {0}")]
    Connection(#[from] hyper::Error),
    /// The request cannot be written down.
    #[error("not a request: {0}")]
    Request(#[from] hyper::http::Error),
}

/// A connection to a server.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: Option<String>,
}

impl Connection {
    /// Connects to `host:port`.
    pub async fn open(host: &str, authorization: Option<&str>) -> Result<Self, CallError> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        let authorization = authorization.map(ToOwned::to_owned);
        Ok(Self { sender, host: host.to_owned(), authorization })
    }

    /// Sends a request and reads its whole answer.
    pub async fn call(&mut self, call: &Call) -> Result<Answer, CallError> {
        let mut request =
            Request::builder().method(&call.method).uri(&call.path).header("host", &self.host);
        if !call.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(etag) = &call.if_none_match {
            request = request.header("if-none-match", etag);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        self.sender.ready().await?;
        let response =
            self.sender.send_request(request.body(Full::new(call.body.clone()))?).await?;
        let etag = response.headers().get("etag").and_then(|tag| tag.to_str().ok());
        let etag = etag.map(ToOwned::to_owned);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, etag, body })
    }
}
