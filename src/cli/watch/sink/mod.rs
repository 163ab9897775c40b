//! [`Sink`]: sends messages to a message broker, and waits for its acknowledgement.

#![cfg_attr(
    not(feature = "broker-tls"),
    expect(dead_code, unused_variables, reason = "without a broker, every connection is an error")
)]

#[cfg(feature = "kafka")]
mod kafka;
pub(super) mod message;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "broker-tls")]
mod tls;

use self::message::{Message, SinkError};
use super::target::{Protocol, Target};

/// A connection to a message broker.
pub(super) enum Sink {
    #[cfg(feature = "nats")]
    Nats(Box<nats::Nats>),
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::Kafka>),
}

impl Sink {
    /// Connects to a broker.
    pub(super) async fn connect(target: &Target) -> Result<Self, SinkError> {
        match target.protocol {
            #[cfg(feature = "nats")]
            Protocol::Nats | Protocol::NatsTls => {
                Ok(Self::Nats(Box::new(nats::Nats::connect(target).await?)))
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
        // Without both features, the type has no values.
        match *self {
            #[cfg(feature = "nats")]
            Self::Nats(ref mut nats) => nats.send(messages).await,
            #[cfg(feature = "kafka")]
            Self::Kafka(ref mut kafka) => kafka.send(messages).await,
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
