//! [`Nats`]: sends messages to a stream of NATS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::{HeaderMap, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};

use super::message::{MEDIA_TYPE, Message, SinkError};
use super::tls::{Files, config, is_certificate_rejected};
use crate::cli::watch::target::{Protocol, Target};
use slateberg_base::error_chain::chain;
use slateberg_config::client::broker_variable;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to NATS.
pub(crate) struct Nats {
    client: Client,
    jetstream: Context,
    target: Target,
    /// Last error that the server sent, such as a missing permission.
    server_error: Arc<Mutex<Option<String>>>,
    /// Whether the stream has stored a message.
    has_stored: bool,
}

impl Nats {
    pub(super) async fn connect(target: &Target) -> Result<Self, SinkError> {
        let server_error = Arc::new(Mutex::default());
        let reported = Arc::clone(&server_error);
        let options = credentials(ConnectOptions::new()).await?;
        let options = options
            .name("slateberg watch")
            .connection_timeout(CONNECT_TIMEOUT)
            .require_tls(target.protocol == Protocol::NatsTls)
            .tls_client_config(config(&files()?)?)
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    *reported.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(error.to_string());
                }
                std::future::ready(())
            });
        let addresses = target.servers.iter().map(|server| format!("nats://{server}").parse());
        let addresses = addresses.collect::<Result<Vec<ServerAddr>, _>>();
        let addresses = addresses.map_err(|error| SinkError::Rejected(error.to_string()))?;
        let connected = options.connect(addresses).await;
        let client = connected.map_err(|error| {
            let message = format!("cannot connect to {target}: {}", chain(&error));
            match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    SinkError::Denied(format!(
                        "{message}. Set NATS_USER and NATS_PASSWORD, NATS_TOKEN or NATS_CREDS"
                    ))
                }
                _ if is_certificate_rejected(&error) => SinkError::Denied(format!(
                    "{message}. Set NATS_CERT and NATS_KEY to a client certificate that the server accepts"
                )),
                ConnectErrorKind::Tls => SinkError::Unavailable(format!(
                    "{message}. Name the CA of the server with NATS_CA"
                )),
                _ => SinkError::Unavailable(message),
            }
        })?;
        let mut jetstream = async_nats::jetstream::new(client.clone());
        jetstream.set_timeout(ACK_TIMEOUT);
        Ok(Self { client, jetstream, target: target.clone(), server_error, has_stored: false })
    }

    /// Sends messages one after the other, because a later message must not be stored if an earlier
    /// one is not.
    pub(super) async fn send(&mut self, messages: &[Message]) -> Result<(), SinkError> {
        for message in messages {
            // The client would keep the message in memory until it has a connection again.
            if self.client.connection_state() != State::Connected {
                let target = &self.target;
                return Err(SinkError::Unavailable(format!("there is no connection to {target}")));
            }
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, message.id.as_str());
            headers.insert("Content-Type", MEDIA_TYPE);
            let (subject, body) = (self.target.channel.clone(), message.body.clone());
            let sent = self.jetstream.publish_with_headers(subject, headers, body).await;
            let stored = match sent {
                Ok(acknowledged) => acknowledged.await,
                Err(error) => Err(error),
            };
            stored.map_err(|error| self.failed(&error))?;
            self.has_stored = true;
        }
        Ok(())
    }

    fn failed(&self, error: &PublishError) -> SinkError {
        let (target, subject) = (&self.target, &self.target.channel);
        let server_error = self.server_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        match error.kind() {
            PublishErrorKind::StreamNotFound => {
                let message = format!(
                    "no stream of JetStream stores the subject '{subject}': create one, for example with: nats stream \
                     add EVENTS --subjects '{subject}' --defaults"
                );
                // While a server starts, its streams are not available yet.
                if self.has_stored {
                    SinkError::Unavailable(message)
                } else {
                    SinkError::Rejected(message)
                }
            }
            PublishErrorKind::MaxPayloadExceeded => SinkError::Rejected(format!(
                "an event is larger than the limit of {target}: raise max_payload of the NATS server"
            )),
            _ => {
                let cause = server_error.unwrap_or_else(|| chain(error));
                let message = format!("{target} has not stored an event: {cause}");
                let is_denied = cause.to_lowercase().contains("permissions violation");
                if is_denied { SinkError::Denied(message) } else { SinkError::Unavailable(message) }
            }
        }
    }
}

/// Adds the credential in the variables of the NATS command line.
async fn credentials(options: ConnectOptions) -> Result<ConnectOptions, SinkError> {
    let variable = broker_variable;
    let user = match (variable("NATS_USER"), variable("NATS_PASSWORD")) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => {
            let message = "set both NATS_USER and NATS_PASSWORD, or neither";
            return Err(SinkError::Rejected(message.to_owned()));
        }
    };
    let all = (variable("NATS_CREDS"), variable("NATS_TOKEN"), user);
    match all {
        (None, None, None) => Ok(options),
        (Some(file), None, None) => {
            let read = options.credentials_file(&file).await;
            read.map_err(|error| SinkError::Rejected(format!("cannot use the file {file} of NATS_CREDS: {error}")))
        }
        (None, Some(token), None) => Ok(options.token(token)),
        (None, None, Some((user, password))) => Ok(options.user_and_password(user, password)),
        _ => Err(SinkError::Rejected(
            "several credentials for NATS are set: set only one of NATS_CREDS, NATS_TOKEN, or NATS_USER with \
             NATS_PASSWORD"
                .to_owned(),
        )),
    }
}

fn files() -> Result<Files, SinkError> {
    let client = match (broker_variable("NATS_CERT"), broker_variable("NATS_KEY")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let message = "set both NATS_CERT and NATS_KEY, or neither";
            return Err(SinkError::Rejected(message.to_owned()));
        }
    };
    Ok(Files { ca: broker_variable("NATS_CA"), client })
}
