//! Why a pure function of the model says no.

/// A definite "no" to a commit or a create: nothing was written, and the text is the client's to read.
///
/// Two kinds, by what the client does next; `catalog` maps them onto the specification's exceptions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is wrong in itself and will be refused again: 400.
    #[error("{0}")]
    Invalid(String),
    /// The request was right for another state of the table (a requirement does not hold, a snapshot
    /// is behind): refresh, and perhaps retry: 409.
    #[error("{0}")]
    Conflict(String),
}

impl Refusal {
    /// A request that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// A request that was right for another state.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Conflict(message.into())
    }
}
