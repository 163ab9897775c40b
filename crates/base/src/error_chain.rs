//! [`chain`]: formats an error with its causes on one line.

use std::error::Error;

/// Returns the messages of the error and of its causes, separated by colons. Omits a cause whose
/// message is already the end of the previous one.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
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
    fn causes_follow_their_error_and_are_not_repeated() {
        let cause = || io::Error::other("connection refused");
        assert_eq!(chain(&Outer(cause())), "cannot fetch the keys: connection refused");
        assert_eq!(chain(&Transparent(cause())), "connection refused");
    }
}
