//! [`Sink`]: sends messages to a message broker, and waits for its acknowledgement.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "broker-tls")]
mod tls;

use bytes::Bytes;

use super::target::{Protocol, Target};
use crate::cli::exit::Exit;

/// Media type of the body of a message.
const MEDIA_TYPE: &str = "application/cloudevents+json";

/// An event as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Id of the event.
    pub(super) id: String,
    /// Id of the changed resource. Brokers keep the order of the messages with the same key. `None`
    /// for an event that concerns all resources.
    pub(super) key: Option<String>,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub(super) at_ms: i64,
    /// JSON of a `CloudEvent`.
    pub(super) body: Bytes,
}

/// The reason why a broker has not acknowledged messages.
#[derive(Debug, thiserror::Error)]
pub(super) enum SinkError {
    /// The broker is not available. A retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The broker rejects the credential.
    #[error("{0}")]
    Denied(String),
    /// The settings or a message are wrong. A retry cannot succeed.
    #[error("{0}")]
    Rejected(String),
}

impl SinkError {
    /// Returns the exit code of the program after this error.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Unavailable(_) => Exit::Unreachable,
            Self::Denied(_) => Exit::Denied,
            Self::Rejected(_) => Exit::Failed,
        }
    }
}

/// A connection to a message broker.
pub(super) enum Sink {
    #[cfg(feature = "nats")]
    Nats(nats::Nats),
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::Kafka>),
}

impl Sink {
    /// Connects to a broker.
    pub(super) async fn connect(target: &Target) -> Result<Self, SinkError> {
        match target.protocol {
            #[cfg(feature = "nats")]
            Protocol::Nats | Protocol::NatsTls => {
                Ok(Self::Nats(nats::Nats::connect(target).await?))
            }
            #[cfg(not(feature = "nats"))]
            Protocol::Nats | Protocol::NatsTls => Err(missing_feature("NATS", "nats")),
            #[cfg(feature = "kafka")]
            Protocol::Kafka => Ok(Self::Kafka(Box::new(kafka::Kafka::connect(target).await?))),
            #[cfg(not(feature = "kafka"))]
            Protocol::Kafka => Err(missing_feature("Kafka", "kafka")),
        }
    }

    /// Sends messages in their order, and waits until the broker has stored them. After an error, it
    /// may have stored some of them.
    pub(super) async fn send(&mut self, messages: &[Message]) -> Result<(), SinkError> {
        match self {
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.send(messages).await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.send(messages).await,
        }
    }
}

#[cfg(not(all(feature = "nats", feature = "kafka")))]
fn missing_feature(broker: &str, feature: &str) -> SinkError {
    SinkError::Rejected(format!(
        "this build cannot write to {broker}: it does not contain the feature '{feature}'. Build one that can, in a \
         checkout of slateberg: cargo install --locked --path . --features {feature}"
    ))
}
