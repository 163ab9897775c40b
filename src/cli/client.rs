//! Connection of subcommands to a running server.

use std::cell::OnceCell;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::{Certificate, Client, Identity};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::exit::{Exit, Failure, Outcome};
use super::output::{GLOBAL, OUTPUT_HELP, Output, json_text, print};
use super::runtime::runtime;
use slateberg_base::secret::Secret;
use slateberg_config::client as environment;
use slateberg_management::error::ErrorResponse;

const HEADING: &str = "Connection options";
const URL_HELP: &str = "URL of the server [env: SLATEBERG_URL] [default: http://127.0.0.1:8181]";
const KEY_HELP: &str = "API key or token. Visible in the process list: prefer SLATEBERG_API_KEY";
const CA_CERT_HELP: &str =
    "PEM file of CA certificates to trust in addition to the system's [env: SLATEBERG_CA_CERT]";
const CLIENT_CERT_HELP: &str =
    "PEM file with a client certificate and its key [env: SLATEBERG_CLIENT_CERT]";

/// Timeout for connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the next bytes from a connected server. This timeout is long because, for some
/// requests, the server tests an object store before it responds.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of printed characters of a response that is not JSON.
const ERROR_TEXT_CHARS_MAX: usize = 200;

/// The address of the server and the credentials for it.
#[derive(Debug, Args)]
pub(super) struct Connection {
    #[arg(long, value_name = "URL", help = URL_HELP, help_heading = HEADING)]
    pub(super) url: Option<String>,
    #[arg(long, value_name = "KEY", value_parser = secret, help = KEY_HELP, help_heading = HEADING)]
    api_key: Option<Secret>,
    #[arg(long, value_name = "FILE", help = CA_CERT_HELP, help_heading = HEADING)]
    ca_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = CLIENT_CERT_HELP, help_heading = HEADING)]
    client_cert: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    pub(super) output: Output,
    /// Client of all requests, so that they share their connections.
    #[arg(skip)]
    http: OnceCell<Client>,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// Reasons why a request to a server failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The server cannot be reached, or does not respond.
    #[error("{0}")]
    Unreachable(String),
    /// The request cannot be sent, or the response is not valid.
    #[error("{0}")]
    Http(String),
    /// The address of the server is not a URL.
    #[error("{0}")]
    Address(String),
    /// A file or value of the request is wrong.
    #[error("{0}")]
    Input(String),
    /// The server rejected the request.
    #[error("{message} ({kind}, {status}){hint}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The type of the exception, such as `NoSuchTableException`.
        kind: String,
        /// The message of the exception.
        message: String,
        /// Advice; may be empty.
        hint: String,
    },
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::new(error.exit(), error)
    }
}

impl ClientError {
    /// Returns the exit code of the program after this error.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Unreachable(_) => Exit::Unreachable,
            Self::Address(_) => Exit::Usage,
            Self::Rejected { status: 401 | 403, .. } => Exit::Denied,
            Self::Rejected { status: 502..=504, .. } => Exit::Unreachable,
            Self::Http(_) | Self::Input(_) | Self::Rejected { .. } => Exit::Failed,
        }
    }

    /// Whether a later attempt may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Rejected { status: 429 | 500..=599, .. })
    }

    /// Returns the error of a request to `base` that got no response.
    pub(super) fn transport(base: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = cause(&error);
        if error.is_builder() {
            return Self::Http(format!("cannot send a request to {base}: {cause}"));
        }
        if error.is_timeout() {
            return Self::Unreachable(format!(
                "no response from {base} in time: {cause}. Is the address right? Set it with --url or \
                 SLATEBERG_URL"
            ));
        }
        let advice = if cause.contains("UnknownIssuer") {
            "The server's certificate is not trusted: name its CA with --ca-cert or SLATEBERG_CA_CERT"
        } else if cause.contains("CertificateRequired") {
            "The server requires a client certificate: name its file with --client-cert or \
             SLATEBERG_CLIENT_CERT"
        } else if cause.contains("not valid for name") {
            "The server's certificate is not valid for this address"
        } else if cause.contains("certificate") {
            "The server's certificate was rejected"
        } else if cause.contains("InvalidContentType") {
            "The server does not use TLS: begin the URL with http://"
        } else if error.is_connect() {
            "Is the server running? Set the address with --url or SLATEBERG_URL"
        } else if base.starts_with("http://") {
            "If the server uses TLS, begin the URL with https://"
        } else {
            "The connection broke. If the server requires a client certificate, name its file with \
             --client-cert or SLATEBERG_CLIENT_CERT; otherwise, see the server's log"
        };
        Self::Unreachable(format!("cannot connect to {base}: {cause}. {advice}"))
    }
}

/// Returns the message of the innermost source of an error.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &(dyn Error + 'static) = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "connection refused".to_owned()
        }
        _ => innermost.to_string(),
    }
}

/// Validates an HTTP URL and removes the slash at its end. `name` is the option or variable that
/// contains the URL.
fn validate_address(name: &str, address: &str) -> Result<String, ClientError> {
    let invalid = |reason: &str| ClientError::Address(format!("{name} {reason}"));
    if !address.starts_with("http://") && !address.starts_with("https://") {
        let example = match address.split_once("://") {
            Some((_, rest)) => rest,
            None => address,
        };
        return Err(invalid(&format!(
            "must begin with http:// or https://: got '{address}'. Did you mean http://{example}?"
        )));
    }
    match Url::parse(address) {
        Ok(_) => Ok(address.trim_end_matches('/').to_owned()),
        Err(error) => Err(invalid(&format!("is not a URL: '{address}': {error}"))),
    }
}

impl Connection {
    /// Returns the URL of the server, without a slash at its end.
    pub(super) fn base(&self) -> Result<String, ClientError> {
        match (&self.url, environment::server_url()) {
            (Some(url), _) => validate_address("--url", url),
            (None, Some(url)) => validate_address(environment::URL, &url),
            (None, None) => Ok(environment::URL_DEFAULT.to_owned()),
        }
    }

    /// Whether the option `--url` or its variable is set.
    pub(super) fn is_configured(&self) -> bool {
        self.url.is_some() || environment::server_url().is_some()
    }

    /// Returns the bearer token, if there is one.
    pub(super) fn key(&self) -> Option<Secret> {
        self.api_key.clone().or_else(environment::api_key)
    }

    /// Returns the HTTP client for the server.
    pub(super) fn client(&self) -> Result<Client, ClientError> {
        if let Some(client) = self.http.get() {
            return Ok(client.clone());
        }
        let client = self.new_client()?;
        Ok(self.http.get_or_init(|| client).clone())
    }

    fn new_client(&self) -> Result<Client, ClientError> {
        let mut client =
            Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        if let Some(file) = self.ca_cert.clone().or_else(environment::ca_cert) {
            let certificates = Certificate::from_pem_bundle(&read(&file)?);
            let certificates = certificates.ok().filter(|all| !all.is_empty());
            let certificates =
                certificates.ok_or_else(|| file_error(&file, "no PEM certificates"))?;
            client = client.tls_certs_merge(certificates);
        }
        if let Some(file) = self.client_cert.clone().or_else(environment::client_cert) {
            let identity = Identity::from_pem(&read(&file)?);
            let identity =
                identity.map_err(|_| file_error(&file, "no PEM certificate with a key"))?;
            client = client.identity(identity);
        }
        client.build().map_err(|error| ClientError::Http(cause(&error)))
    }

    /// Sends a request and returns the body of the response. If `body` is null, the request has no
    /// body.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let base = self.base()?;
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let mut request = self.client()?.request(method, format!("{base}{path}"));
        if let Some(key) = self.key() {
            request = request.bearer_auth(key.reveal());
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let failed = |error| ClientError::transport(&base, error);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let text = response.text().await.map_err(failed)?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let error = serde_json::from_value::<ErrorResponse>(value).ok().map(|it| it.error);
        let (kind, message) = error.map(|error| (error.kind, error.message)).unzip();
        Err(ClientError::Rejected {
            status: status.as_u16(),
            kind: kind.unwrap_or_else(|| "not a response of slateberg".to_owned()),
            message: message.unwrap_or_else(|| text.chars().take(ERROR_TEXT_CHARS_MAX).collect()),
            hint: self.hint(status.as_u16()),
        })
    }

    /// Returns a response as JSON, or as the text that `text` makes of it.
    pub(super) fn render<T: DeserializeOwned>(
        &self,
        response: Value,
        text: impl FnOnce(T) -> String,
    ) -> Result<String, ClientError> {
        match self.output {
            Output::Json => Ok(json_text(&response)),
            Output::Table => parse(response).map(text),
        }
    }

    /// Returns the message that an action is done, such as `deleted` and the name of what is gone.
    pub(super) fn done(&self, action: &str, name: &str) -> String {
        match self.output {
            Output::Json => json_text(&json!({ action: name })),
            Output::Table => format!("{action} {name}\n"),
        }
    }

    /// Returns advice for a request that was rejected because of its credential. Returns an empty
    /// string for all other requests.
    fn hint(&self, status: u16) -> String {
        let source = if self.api_key.is_some() { "--api-key" } else { environment::API_KEY };
        match (status, self.key().is_some()) {
            (401, false) => {
                "\nThe server requires a credential: set SLATEBERG_API_KEY or --api-key".to_owned()
            }
            (401, true) => {
                format!(
                    "\nThe server rejected the API key or token of {source}: is it the right one?"
                )
            }
            (403, true) => format!(
                "\nThe API key or token of {source} lacks this permission: ask an administrator for a role or a \
                 grant"
            ),
            _ => String::new(),
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, ClientError> {
    std::fs::read(file).map_err(|error| file_error(file, error))
}

fn file_error(file: &Path, error: impl Display) -> ClientError {
    ClientError::Input(format!("{}: {error}", file.display()))
}

/// Parses the body of a response.
pub(super) fn parse<T: DeserializeOwned>(response: Value) -> Result<T, ClientError> {
    serde_json::from_value(response)
        .map_err(|error| ClientError::Http(format!("unexpected response of the server: {error}")))
}

/// Returns a request as JSON.
pub(super) fn body(request: &impl Serialize) -> Result<Value, ClientError> {
    serde_json::to_value(request)
        .map_err(|error| ClientError::Http(format!("cannot write the request: {error}")))
}

/// Percent-encodes a segment and appends it to a path.
pub(super) fn child_path(path: &str, segment: &str) -> String {
    format!("{path}/{}", encoded(segment))
}

/// Percent-encodes a segment of a path.
pub(super) fn encoded(text: &str) -> String {
    // The encodings of forms and paths differ only in the space.
    let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// Returns the query string of the pairs that have a value. It is empty if no pair has one.
pub(super) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => query,
        query => format!("?{query}"),
    }
}

/// Sends requests to a running server and prints the result.
pub(super) fn run_online(request: impl Future<Output = Result<String, ClientError>>) -> Outcome {
    print(&runtime()?.block_on(request)?);
    Ok(ExitCode::SUCCESS)
}
