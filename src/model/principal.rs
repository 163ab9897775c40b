//! Who asks.

/// Whoever a request speaks for, once it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Nobody in particular: the server runs without authentication.
    Anonymous,
    /// One of slateberg's own background tasks, by name.
    Task(&'static str),
}

impl Principal {
    /// A short text that names the principal in keys and logs.
    pub fn id(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Task(name) => name,
        }
    }
}
