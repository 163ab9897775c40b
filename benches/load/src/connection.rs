//! A persistent HTTP/1.1 connection with minimal overhead.
//!
//! The task that awaits the response also drives the connection. A separate task for the
//! connection, the usual way, costs two more wake-ups per request.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest, handshake};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A request to a catalog.
#[derive(Debug, Clone)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Body. Empty for none.
    pub body: Bytes,
    /// Value of the `If-None-Match` header.
    pub if_none_match: Option<HeaderValue>,
    /// Value of the `X-Slateberg-Consistency` header.
    pub consistency: Option<HeaderValue>,
    /// Whether the client accepts gzip. The load generator does not decompress bodies.
    pub accepts_gzip: bool,
    /// Whether the call returns the body of a successful response. Otherwise, the body is read and
    /// dropped.
    pub keeps_body: bool,
}

impl Call {
    /// Creates a request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let (path, body) = (path.into(), Bytes::new());
        let (if_none_match, consistency) = (None, None);
        let (accepts_gzip, keeps_body) = (false, false);
        Self { method, path, body, if_none_match, consistency, accepts_gzip, keeps_body }
    }

    /// Creates a `GET`.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates a `POST` of this JSON.
    pub fn post(path: impl Into<String>, json: impl Into<Bytes>) -> Self {
        Self { body: json.into(), ..Self::new(Method::POST, path) }
    }

    /// Makes the call return the response's body.
    pub fn keeping_body(self) -> Self {
        Self { keeps_body: true, ..self }
    }
}

/// Response to a call.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, if it was requested or explains a failure.
    pub body: Bytes,
}

impl CallResponse {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        is_success(self.status)
    }

    /// Beginning of the body.
    pub fn excerpt(&self) -> String {
        const BYTES_MAX: usize = 300;
        String::from_utf8_lossy(&self.body[..self.body.len().min(BYTES_MAX)]).into_owned()
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status) || status == 304
}

/// Reason why a call got no response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection broke, or the response was not HTTP.
    #[error("the connection failed: {0}")]
    Connection(#[from] hyper::Error),
    /// The request is invalid.
    #[error("not a request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The response took too long.
    #[error("no response within {} s", RESPONSE_TIMEOUT.as_secs())]
    Timeout,
}

/// Timeout of a response.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The connection's state machine, which has to be polled.
struct ConnectionDriver(Option<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>);

impl ConnectionDriver {
    /// Awaits a future while it drives the connection.
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if let Some(connection) = &mut self.0
                && Pin::new(connection).poll(cx).is_ready()
            {
                // The connection ended. `future` returns the reason.
                self.0 = None;
            }
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// A connection to a server. The client reopens the connection after the server has closed it.
pub struct Connection {
    driver: ConnectionDriver,
    sender: SendRequest<Full<Bytes>>,
    address: String,
    authorization: Option<HeaderValue>,
}

impl Connection {
    /// Connects to `host:port`.
    pub async fn open(
        address: &str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Self, CallError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let (driver, address) = (ConnectionDriver(Some(connection)), address.to_owned());
        Ok(Self { driver, sender, address, authorization: authorization.cloned() })
    }

    /// Reopens the connection.
    pub async fn reopen(&mut self) -> Result<(), CallError> {
        *self = Self::open(&self.address, self.authorization.as_ref()).await?;
        Ok(())
    }

    /// Sends a request and reads its complete response.
    pub async fn call(&mut self, call: &Call) -> Result<CallResponse, CallError> {
        tokio::time::timeout(RESPONSE_TIMEOUT, self.send(call))
            .await
            .unwrap_or(Err(CallError::Timeout))
    }

    async fn send(&mut self, call: &Call) -> Result<CallResponse, CallError> {
        if self.driver.drive(self.sender.ready()).await.is_err() {
            self.reopen().await?;
        }
        let sending = self.sender.send_request(self.request(call)?);
        let response = match self.driver.drive(sending).await {
            // The server closed the connection before it received the request, so the request can
            // be sent again.
            Err(error) if error.is_canceled() => {
                self.reopen().await?;
                let sending = self.sender.send_request(self.request(call)?);
                self.driver.drive(sending).await?
            }
            response => response?,
        };
        self.read(response, call.keeps_body).await
    }

    async fn read(
        &mut self,
        response: Response<Incoming>,
        keep: bool,
    ) -> Result<CallResponse, CallError> {
        let (parts, mut incoming) = response.into_parts();
        let status = parts.status.as_u16();
        let keep = keep || !is_success(status);
        let mut body = BytesMut::new();
        while let Some(frame) = self.driver.drive(incoming.frame()).await {
            let frame = frame?;
            if let Some(data) = frame.data_ref().filter(|_| keep) {
                body.extend_from_slice(data);
            }
        }
        Ok(CallResponse { status, headers: parts.headers, body: body.freeze() })
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, CallError> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(call.path.as_str())
            .header("host", self.address.as_str());
        if !call.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(etag) = &call.if_none_match {
            request = request.header("if-none-match", etag);
        }
        if call.accepts_gzip {
            request = request.header("accept-encoding", "gzip");
        }
        if let Some(consistency) = &call.consistency {
            request = request.header("x-slateberg-consistency", consistency);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        Ok(request.body(Full::new(call.body.clone()))?)
    }
}
