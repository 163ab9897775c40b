//! [`Refusal`]: the error of the model's pure functions.

/// A final rejection of a commit or a creation. Nothing was written. The message is for the client.
///
/// The two kinds differ in the client's next step. `catalog` maps them to the specification's
/// exceptions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request can never succeed, so a retry is useless. Maps to 400.
    #[error("{0}")]
    Invalid(String),
    /// The request was valid for another state of the table: a requirement does not hold, or a
    /// snapshot is outdated. The client refreshes and may retry. Maps to 409.
    #[error("{0}")]
    Conflict(String),
}

impl Refusal {
    /// Creates an [`Invalid`](Self::Invalid) refusal.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Creates a [`Conflict`](Self::Conflict) refusal.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Conflict(message.into())
    }
}
