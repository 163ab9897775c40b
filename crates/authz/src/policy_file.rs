//! [`PolicyFile`]: the source of policies.

/// A file of policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Name of the file, for messages.
    pub name: String,
    /// Source, in Cedar's language.
    pub text: String,
}
