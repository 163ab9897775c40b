//! [`Cause`]: the cause of an error. [`chain`]: formats an error with its causes on one line.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Returns the messages of the error and of its causes, separated by colons. Omits a cause if its
/// message is already part of the text.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut message = one_line(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = one_line(error);
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

/// Returns the error's message on one line. Messages of some libraries have several lines.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The cause of an error: an error of any type, or a string. Cheap to clone. `source` returns the
/// wrapped error, so that callers can downcast that error.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

/// A cause, and the subject with which its message begins.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {source}")]
struct WithSubject {
    subject: String,
    source: Cause,
}

impl Cause {
    /// Wraps an error or a string.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }

    /// Wraps an error or a string. The message begins with the given subject.
    pub fn about(
        subject: impl fmt::Display,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::new(WithSubject { subject: subject.to_string(), source: Self::new(cause) })
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&*self.0))
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot fetch the keys")]
    struct Outer(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Transparent(#[source] io::Error);

    #[test]
    fn a_chain_contains_each_message_once() {
        let cause = || io::Error::other("connection refused");
        assert_eq!(chain(&Outer(cause())), "cannot fetch the keys: connection refused");
        assert_eq!(chain(&Transparent(cause())), "connection refused");
    }

    #[test]
    fn a_cause_has_one_line_and_its_sources_can_be_downcast() {
        let outer = Outer(io::Error::other("connection\n    refused"));
        let cause = Cause::about("the issuer", Outer(io::Error::other("refused")));
        assert_eq!(chain(&cause), "the issuer: cannot fetch the keys: refused");
        let cause = Cause::new(outer);
        assert_eq!(chain(&cause), "cannot fetch the keys: connection refused");
        assert!(cause.source().is_some_and(|source| source.is::<Outer>()));
    }
}
