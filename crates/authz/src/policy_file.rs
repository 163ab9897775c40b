//! [`PolicyFile`]: policies as their authors write them.

/// Policies as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Where they stand, for messages.
    pub name: String,
    /// The text, in Cedar's language.
    pub text: String,
}
