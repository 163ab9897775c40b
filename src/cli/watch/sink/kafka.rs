//! [`Kafka`]: sends messages to a topic of Kafka.

mod partitioner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use futures::future::try_join_all;
use rskafka::BackoffConfig;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use tokio::time::timeout;

use self::partitioner::partition_of;
use super::message::{MEDIA_TYPE, Message, SinkError};
use super::tls::{Files, config};
use crate::cli::watch::target::Target;
use slateberg_base::error_chain::chain;
use slateberg_config::client::broker_variable;

/// Time after which the attempts of the client end. The delivery then reports the reason, connects
/// again and repeats the messages.
const ATTEMPTS_MAX: Duration = Duration::from_secs(5);
/// Time after which a broker that does not respond is not available.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to Kafka.
pub(crate) struct Kafka {
    target: Target,
    settings: ConnectionSettings,
    /// The partitions of the topic, by their numbers. Empty after a failure, until there is a new
    /// connection.
    partitions: Vec<PartitionClient>,
}

/// The settings of a connection, from the variables.
#[derive(Clone)]
struct ConnectionSettings {
    tls: Option<Arc<rustls::ClientConfig>>,
    sasl: Option<SaslConfig>,
}

impl Kafka {
    pub(super) async fn connect(target: &Target) -> Result<Self, SinkError> {
        let settings = settings()?;
        let mut kafka = Self { target: target.clone(), settings, partitions: Vec::new() };
        kafka.within_timeout(Self::reconnect(target, &kafka.settings)).await.map(|partitions| {
            kafka.partitions = partitions;
            kafka
        })
    }

    /// Sends messages. The messages of a partition are one batch, which the partition stores as a
    /// whole and in this order.
    pub(super) async fn send(&mut self, messages: &[Message]) -> Result<(), SinkError> {
        if self.partitions.is_empty() {
            let connecting = Self::reconnect(&self.target, &self.settings);
            self.partitions = self.within_timeout(connecting).await?;
        }
        let sent = self.within_timeout(self.send_all(messages)).await;
        if sent.is_err() {
            self.partitions.clear();
        }
        sent
    }

    async fn send_all(&self, messages: &[Message]) -> Result<(), SinkError> {
        // An event without a key concerns the readers of all partitions. It is sent to each of them,
        // after the earlier events.
        for part in messages.chunk_by(|first, second| first.key.is_some() && second.key.is_some()) {
            let mut batches: BTreeMap<usize, Vec<Record>> = BTreeMap::new();
            for message in part {
                match &message.key {
                    Some(key) => {
                        let partition = partition_of(key.as_bytes(), self.partitions.len());
                        batches.entry(partition).or_default().push(record(message));
                    }
                    None => (0..self.partitions.len()).for_each(|partition| {
                        batches.entry(partition).or_default().push(record(message));
                    }),
                }
            }
            let produced = batches.into_iter().map(|(partition, records)| {
                self.partitions[partition].produce(records, Compression::NoCompression)
            });
            try_join_all(produced).await.map_err(|error| failed(&self.target, &error))?;
        }
        Ok(())
    }

    /// Connects to the leaders of all partitions.
    async fn reconnect(
        target: &Target,
        settings: &ConnectionSettings,
    ) -> Result<Vec<PartitionClient>, SinkError> {
        let attempts = BackoffConfig { deadline: Some(ATTEMPTS_MAX), ..BackoffConfig::default() };
        let mut client = ClientBuilder::new(target.servers.clone())
            .client_id("slateberg-watch")
            .backoff_config(attempts);
        if let Some(tls) = &settings.tls {
            client = client.tls_config(Arc::clone(tls));
        }
        if let Some(sasl) = &settings.sasl {
            client = client.sasl_config(sasl.clone());
        }
        let topic = &target.channel;
        let failed = |error: Error| failed(target, &error);
        let client = client.build().await.map_err(failed)?;
        let topics = client.list_topics().await.map_err(failed)?;
        let found = topics.into_iter().find(|it| it.name == *topic).ok_or_else(|| {
            SinkError::Rejected(format!(
                "the topic '{topic}' does not exist, or the user may not see it: create it, for example with: \
                 kafka-topics.sh --create --topic {topic}"
            ))
        })?;
        let connecting = found.partitions.into_iter().map(|partition| {
            client.partition_client(topic.clone(), partition, UnknownTopicHandling::Error)
        });
        try_join_all(connecting).await.map_err(failed)
    }

    async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, SinkError>>,
    ) -> Result<T, SinkError> {
        timeout(RESPONSE_TIMEOUT, work).await.unwrap_or_else(|_| {
            let target = &self.target;
            Err(SinkError::Unavailable(format!("no response from {target} in time")))
        })
    }
}

fn record(message: &Message) -> Record {
    let content_type = ("content-type".to_owned(), MEDIA_TYPE.as_bytes().to_vec());
    Record {
        key: message.key.as_ref().map(|key| key.as_bytes().to_vec()),
        value: Some(message.body.to_vec()),
        headers: BTreeMap::from([content_type]),
        timestamp: DateTime::from_timestamp_millis(message.at_ms).unwrap_or_default(),
    }
}

fn failed(target: &Target, error: &Error) -> SinkError {
    let reason = chain(error);
    let message = format!("{target} has not stored events: {reason}");
    let is_denied = ["AuthorizationFailed", "SaslAuthenticationFailed", "Sasl handshake failed"];
    if is_denied.iter().any(|name| reason.contains(name)) {
        return SinkError::Denied(format!(
            "{message}. Set KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_SASL_MECHANISM, and permit the user to \
             write to the topic"
        ));
    }
    match error {
        Error::ServerError { protocol_error: ProtocolError::MessageTooLarge, .. } => {
            SinkError::Rejected(format!(
                "events are larger than the limit of {target}: raise max.message.bytes of the topic"
            ))
        }
        _ => SinkError::Unavailable(message),
    }
}

/// Returns the settings in the variables, which have the names of Kafka's properties.
fn settings() -> Result<ConnectionSettings, SinkError> {
    let variable = broker_variable;
    let protocol = variable("KAFKA_SECURITY_PROTOCOL").unwrap_or_else(|| "PLAINTEXT".to_owned());
    let (has_sasl, has_tls) = match protocol.to_uppercase().as_str() {
        "PLAINTEXT" => (false, false),
        "SSL" => (false, true),
        "SASL_PLAINTEXT" => (true, false),
        "SASL_SSL" => (true, true),
        _ => {
            return Err(SinkError::Rejected(format!(
                "KAFKA_SECURITY_PROTOCOL is '{protocol}': expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            )));
        }
    };
    let files = Files { ca: variable("KAFKA_SSL_CA_LOCATION"), client: None };
    let tls = if has_tls { Some(Arc::new(config(&files)?)) } else { None };
    let sasl = if has_sasl { Some(sasl()?) } else { None };
    if !has_sasl && variable("KAFKA_SASL_USERNAME").is_some() {
        return Err(SinkError::Rejected(format!(
            "KAFKA_SASL_USERNAME is set, but KAFKA_SECURITY_PROTOCOL is '{protocol}': expected SASL_SSL or \
             SASL_PLAINTEXT"
        )));
    }
    Ok(ConnectionSettings { tls, sasl })
}

fn sasl() -> Result<SaslConfig, SinkError> {
    let variable = broker_variable;
    let user = variable("KAFKA_SASL_USERNAME").zip(variable("KAFKA_SASL_PASSWORD"));
    let (user, password) = user.ok_or_else(|| {
        SinkError::Rejected("set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD".to_owned())
    })?;
    let credentials = Credentials::new(user, password);
    let mechanism = variable("KAFKA_SASL_MECHANISM").unwrap_or_else(|| "PLAIN".to_owned());
    match mechanism.to_uppercase().as_str() {
        "PLAIN" => Ok(SaslConfig::Plain(credentials)),
        "SCRAM-SHA-256" => Ok(SaslConfig::ScramSha256(credentials)),
        "SCRAM-SHA-512" => Ok(SaslConfig::ScramSha512(credentials)),
        _ => Err(SinkError::Rejected(format!(
            "KAFKA_SASL_MECHANISM is '{mechanism}': expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        ))),
    }
}
