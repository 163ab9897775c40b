//! The limit of reads: a handler that only returns bytes in memory, with the HTTP library and the
//! allocator of the server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::connection::{Call, Connection};
use super::target::{Target, TargetError, split_url};

/// Prefix of the address in the line that the process prints.
const LISTENING: &str = "listening on http://";

/// Response to every `GET`.
struct StoredResponse {
    body: Bytes,
    content_type: HeaderValue,
    etag: Option<HeaderValue>,
}

/// A handler that has bound its address, but does not serve yet.
pub struct BareRead {
    listener: TcpListener,
    stored: Arc<StoredResponse>,
}

impl BareRead {
    /// Fetches the response, and binds the address.
    pub async fn bind(
        listen: SocketAddr,
        like: &str,
        authorization: Option<&str>,
    ) -> Result<Self, TargetError> {
        let (address, path) = split_url(like).ok_or_else(|| TargetError::Url(like.to_owned()))?;
        let authorization =
            authorization.map(HeaderValue::from_str).transpose().map_err(std::io::Error::other);
        let authorization = authorization.map_err(super::connection::CallError::from)?;
        let mut connection = Connection::open(&address, authorization.as_ref()).await?;
        let response = connection.call(&Call::get(path).keeping_body()).await?;
        if !response.is_success() {
            let (status, body) = (response.status, response.excerpt());
            return Err(TargetError::UnexpectedStatus {
                what: format!("GET {like}"),
                status,
                body,
            });
        }
        let json = HeaderValue::from_static("application/json");
        let content_type = response.headers.get("content-type").cloned().unwrap_or(json);
        let etag = response.headers.get("etag").cloned();
        let stored = Arc::new(StoredResponse { body: response.body, content_type, etag });
        let listener =
            TcpListener::bind(listen).await.map_err(super::connection::CallError::from)?;
        Ok(Self { listener, stored })
    }

    /// Returns the line with the address.
    pub fn announcement(&self) -> std::io::Result<String> {
        Ok(format!("{LISTENING}{}\n", self.listener.local_addr()?))
    }

    /// Serves until a signal arrives.
    pub async fn serve(self) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let router = Router::new()
            .route("/", get(response))
            .route("/{*path}", get(response))
            .with_state(self.stored);
        let serving = axum::serve(self.listener, router).into_future();
        tokio::select! {
            ended = serving => ended,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    }
}

async fn response(State(stored): State<Arc<StoredResponse>>, headers: HeaderMap) -> Response {
    let Some(etag) = &stored.etag else {
        return ([(header::CONTENT_TYPE, stored.content_type.clone())], stored.body.clone())
            .into_response();
    };
    if headers.get(header::IF_NONE_MATCH) == Some(etag) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag.clone())]).into_response();
    }
    let headers =
        [(header::CONTENT_TYPE, stored.content_type.clone()), (header::ETAG, etag.clone())];
    (headers, stored.body.clone()).into_response()
}

/// A bare handler in a separate process, so that its CPU time is separate from that of the load
/// generator. Dropping this value kills the process.
pub struct BareProcess {
    child: Child,
    /// Address: `host:port`.
    pub address: String,
}

impl BareProcess {
    /// Starts a handler with the server's response to this path.
    pub fn start(like: &Target, path: &str) -> Result<Self, TargetError> {
        let lacks = |what: &str| TargetError::Unsupported(format!("no bare handler: {what}"));
        let program = std::env::current_exe().map_err(|error| lacks(&error.to_string()))?;
        let mut command = Command::new(program);
        command.args(["bare-read", "--listen", "127.0.0.1:0", "--like"]);
        command.arg(format!("http://{}{path}", like.address()));
        if let Some(authorization) = like.authorization.as_ref().and_then(|it| it.to_str().ok()) {
            command.args(["--authorization", authorization]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| lacks(&error.to_string()))?;
        let mut process = Self { child, address: String::new() };
        let mut line = String::new();
        if let Some(stdout) = process.child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|error| lacks(&error.to_string()))?;
        }
        let address = line.trim().strip_prefix(LISTENING).ok_or_else(|| lacks("it has ended"))?;
        process.address = address.to_owned();
        Ok(process)
    }

    /// Id of the handler's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BareProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
