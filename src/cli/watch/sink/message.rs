//! [`Message`]: an event as brokers get it, and [`SinkError`]: why a broker has not stored it.

use bytes::Bytes;

use crate::cli::exit::Exit;

/// Media type of the body of a message.
pub(super) const MEDIA_TYPE: &str = "application/cloudevents+json";

/// An event as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// Id of the event.
    pub(crate) id: String,
    /// Id of the changed resource. Brokers keep the order of the messages with the same key. `None`
    /// for an event that concerns all resources.
    pub(crate) key: Option<String>,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
    /// JSON of a `CloudEvent`.
    pub(crate) body: Bytes,
}

/// The reason why a broker has not acknowledged messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
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
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unavailable(_) => Exit::Unreachable,
            Self::Denied(_) => Exit::Denied,
            Self::Rejected(_) => Exit::Failed,
        }
    }
}
