//! Pages of a listing, and the opaque token that names the place where the next one begins.
//!
//! A token holds the last name that was returned, and the next page begins strictly behind it. So it
//! stays right while names come and go: no name that stays is skipped or returned twice.

use std::sync::Arc;

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

impl PageRequest {
    /// How many names to read: one more than wanted, which tells whether there is another page.
    pub fn read_limit(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_add(1))
    }
}

/// Names in their order, one behind the other in one text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    text: String,
    /// Where in the text each name ends.
    ends: Vec<usize>,
}

impl Names {
    /// Adds a name behind the others.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// The name at this place.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.push(name));
        all
    }
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    names: Arc<Names>,
    /// How many of the names are on it: the last one may only tell that there is another page.
    len: usize,
    /// The token of the next page, or none if this is the last.
    pub next: Option<String>,
}

impl Page {
    /// Cuts names that were read one too far, and names the place where the next page begins.
    pub fn cut(names: Arc<Names>, limit: Option<usize>) -> Self {
        let len = names.len().min(limit.unwrap_or(usize::MAX));
        let next = (len < names.len()).then(|| {
            let last = len.checked_sub(1).and_then(|last| names.get(last));
            encode_token(last.unwrap_or_default())
        });
        Self { names, len, next }
    }

    /// The names on it, in order: each without those of the namespace that was listed.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().take(self.len)
    }
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
    fn a_page_is_cut_before_the_name_that_was_read_too_far() {
        let names: Arc<Names> = Arc::new(["a", "", "bc", "名前"].into_iter().collect());
        let all = Page::cut(Arc::clone(&names), None);
        assert_eq!(all.names().collect::<Vec<_>>(), ["a", "", "bc", "名前"]);
        assert_eq!(all.next, None);
        assert_eq!(Page::cut(Arc::clone(&names), Some(4)).next, None);
        let first = Page::cut(names, Some(3));
        assert_eq!(first.names().collect::<Vec<_>>(), ["a", "", "bc"]);
        assert_eq!(first.next, Some(encode_token("bc")));
    }

    #[test]
    fn a_token_of_ones_own_making_is_refused() {
        for token in ["!", "AA", "YWJj", "Af8"] {
            assert!(decode_token(token).is_err(), "{token}");
        }
    }
}
