//! Offsets in the texts of the index, which have 32 bits.

use crate::{Error, Result};

/// Returns a part of a text.
pub(super) fn text_at(text: &[u8], start: usize, end: usize) -> &str {
    std::str::from_utf8(&text[start..end]).unwrap_or_default()
}

/// Converts an offset or a number of entries.
pub(super) fn index_of(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| {
        Error::unavailable(
            "The search index is full: the names, columns or comments of the catalog have more than 4 GiB",
            "the names exceed the offsets of the index",
        )
    })
}
