//! Pages of a listing, and the opaque token that names the place where the next one begins.
//!
//! A token holds the last name that was returned, and the next page begins strictly behind it. So it
//! stays right while names come and go: no name that stays is skipped or returned twice.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::refusal::Refusal;

/// The first byte of every token, so that a later form can be told from this one.
const TOKEN_VERSION: u8 = 1;

/// Which part of a listing is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Names up to and including this one have been returned already.
    pub after: Option<String>,
    /// The most names to return; everything if there is none (the specification asks for that where
    /// a client sends no `pageToken`).
    pub limit: Option<usize>,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it, in the order of names.
    pub items: Vec<T>,
    /// The token of the next page, or none if this is the last.
    pub next: Option<String>,
}

/// The token of the page that begins behind `name`.
pub fn encode_token(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len() + 1);
    bytes.push(TOKEN_VERSION);
    bytes.extend_from_slice(name.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The name that a token says has been returned; none for the empty token, which asks for the first page.
pub fn decode_token(token: &str) -> Result<Option<String>, Refusal> {
    if token.is_empty() {
        return Ok(None);
    }
    let broken = || Refusal::invalid("Invalid page token");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| broken())?;
    match bytes.split_first() {
        Some((&TOKEN_VERSION, name)) => {
            String::from_utf8(name.to_vec()).map(Some).map_err(|_| broken())
        }
        _ => Err(broken()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_the_name_it_was_made_of() {
        for name in ["a", "a.b/c d", "名前"] {
            assert_eq!(decode_token(&encode_token(name)), Ok(Some(name.to_owned())));
        }
        assert_eq!(decode_token(""), Ok(None));
    }

    #[test]
    fn a_token_of_ones_own_making_is_refused() {
        for token in ["!", "AA", "YWJj", "Af8"] {
            assert!(decode_token(token).is_err(), "{token}");
        }
    }
}
