//! A running server, as the subcommands that manage it speak to it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::{Certificate, Client, Identity};
use serde_json::Value;
use url::form_urlencoded;

use super::output::Output;
use crate::base::secret::Secret;
use crate::config::client as environment;

const URL_HELP: &str = "URL of the server [env: SLATEBERG_URL] [default: http://127.0.0.1:8181]";
const KEY_HELP: &str =
    "API key or token to send; others may see it here, not so in [env: SLATEBERG_API_KEY]";

const CA_CERT_HELP: &str =
    "PEM file of CA certificates to trust besides the system's [env: SLATEBERG_CA_CERT]";
const CLIENT_CERT_HELP: &str =
    "PEM file of the certificate to show, and of its key [env: SLATEBERG_CLIENT_CERT]";

/// Where the server is, and what it is shown.
#[derive(Debug, Args)]
pub(super) struct Connection {
    #[arg(long, value_name = "URL", help = URL_HELP)]
    pub(super) url: Option<String>,
    #[arg(long, value_name = "KEY", value_parser = secret, help = KEY_HELP)]
    api_key: Option<Secret>,
    #[arg(long, value_name = "FILE", help = CA_CERT_HELP)]
    ca_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = CLIENT_CERT_HELP)]
    client_cert: Option<PathBuf>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: Output,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// Why a server was of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// It cannot be reached, or does not speak HTTP.
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    /// What was to be sent cannot be read.
    #[error("{0}")]
    Input(String),
    /// It says no.
    #[error("{message} ({kind}, {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The exception's name.
        kind: String,
        /// The exception's text.
        message: String,
    },
}

impl Connection {
    /// The URL of the server, without a slash at its end.
    pub(super) fn base(&self) -> String {
        let url = self.url.clone().unwrap_or_else(environment::url);
        url.trim_end_matches('/').to_owned()
    }

    /// Whether anybody has said which server is meant, by the option or the variable.
    pub(super) fn is_said(&self) -> bool {
        self.url.is_some() || environment::said_url().is_some()
    }

    /// What is sent as a bearer token, if anything is.
    pub(super) fn key(&self) -> Option<Secret> {
        self.api_key.clone().or_else(environment::api_key)
    }

    /// What speaks to the server.
    pub(super) fn client(&self) -> Result<Client, ClientError> {
        let mut client = Client::builder();
        if let Some(file) = self.ca_cert.clone().or_else(environment::ca_cert) {
            let certificates = Certificate::from_pem_bundle(&read(&file)?);
            let certificates = certificates.ok().filter(|all| !all.is_empty());
            let certificates = certificates.ok_or_else(|| no_good(&file, "no PEM certificates"))?;
            client = client.tls_certs_merge(certificates);
        }
        if let Some(file) = self.client_cert.clone().or_else(environment::client_cert) {
            let identity = Identity::from_pem(&read(&file)?);
            let identity = identity.map_err(|_| no_good(&file, "no PEM certificate with a key"))?;
            client = client.identity(identity);
        }
        Ok(client.build()?)
    }

    /// Sends a request, with a JSON body unless it is null, and reads the answer.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let url = format!("{}{path}", self.base());
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let mut request = self.client()?.request(method, url);
        if let Some(key) = self.key() {
            request = request.bearer_auth(key.reveal());
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let of = |name: &str| answer["error"][name].as_str().map(str::to_owned);
        Err(ClientError::Refused {
            status: status.as_u16(),
            kind: of("type").unwrap_or_else(|| "not an answer of slateberg".to_owned()),
            message: of("message").unwrap_or_else(|| text.chars().take(200).collect()),
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, ClientError> {
    std::fs::read(file).map_err(|error| no_good(file, error))
}

fn no_good(file: &Path, error: impl Display) -> ClientError {
    ClientError::Input(format!("{}: {error}", file.display()))
}

/// A path with one more segment, whatever is in it.
pub(super) fn below(path: &str, segment: &str) -> String {
    format!("{path}/{}", encoded(segment))
}

/// A text as a part of a path.
pub(super) fn encoded(text: &str) -> String {
    // A form's encoding is a path's but for the space.
    let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// A query of the pairs that have a value; nothing if none has.
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
