//! `Content`: the content that SlateDB reads from a file, or the reason why the file cannot be
//! read.

use slatedb::ErrorKind;

use crate::error::{Error, encryption_failure};
use slateberg_base::error_chain::one_line;

/// Content of a file, or of a part of it.
pub(super) enum Content<T> {
    /// The content is readable.
    Sound(T),
    /// The content is damaged, for this reason.
    Damaged(String),
}

/// Converts the result of a read. Errors if the store does not respond.
pub(super) fn content<T>(read: Result<T, slatedb::Error>) -> Result<Content<T>, Error> {
    match read {
        Ok(read) => Ok(Content::Sound(read)),
        Err(error) => match (encryption_failure(&error), error.kind()) {
            (Some(failure), _) => Ok(Content::Damaged(format!("is damaged: {failure}"))),
            (None, ErrorKind::Data | ErrorKind::Invalid | ErrorKind::Internal) => {
                Ok(Content::Damaged(format!("is damaged: {}", one_line(&error))))
            }
            (None, _) => Err(error.into()),
        },
    }
}
