//! Pages of a listing, and the opaque tokens with which clients request the next page.
//!
//! A token contains the hash of its listing and the last returned name. The next page begins
//! directly after that name. So pagination stays correct while names are added and removed: a name
//! that exists during the whole listing is returned exactly once.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::refusal::Refusal;

/// The first byte of every token. Tokens of version 1 did not contain the hash of their listing.
const TOKEN_VERSION: u8 = 2;
/// Length of the listing's hash in a token, in bytes.
const LISTING_BYTES: usize = 4;

/// The hash of a listing's parameters. A token is rejected if it belongs to another listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listing(pub u32);

/// A client's request for one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRequest {
    /// The listing, which the tokens of further pages contain.
    pub listing: Listing,
    /// The last name that was returned on the previous page.
    pub after: Option<String>,
    /// The maximum number of names. `None` for all names, as the specification requires if a client
    /// sends no `pageToken`.
    pub limit: Option<usize>,
}

impl PageRequest {
    /// Returns the token of the page that begins after `name`.
    pub fn token(&self, name: &str) -> String {
        let Self { listing: Listing(listing), .. } = self;
        let mut bytes = Vec::with_capacity(1 + LISTING_BYTES + name.len());
        bytes.push(TOKEN_VERSION);
        bytes.extend_from_slice(&listing.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the number of names to read: one more than requested. The extra name shows that
    /// there is another page.
    pub fn read_limit(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_add(1))
    }
}

/// Names in order, concatenated in one string.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    text: String,
    /// The end offset of each name.
    ends: Vec<usize>,
}

impl Names {
    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the memory used, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Returns the name at this index.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// Iterates over the names, in order.
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
    /// The number of names on the page. `names` may have one more name. It is not returned, but
    /// shows that there is another page.
    len: usize,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

impl Page {
    /// Creates a page from names that were read with [`PageRequest::read_limit`], with the token of
    /// the next page.
    pub fn cut(names: Arc<Names>, page: &PageRequest) -> Self {
        let len = names.len().min(page.limit.unwrap_or(usize::MAX));
        let next = (len < names.len()).then(|| {
            let last = len.checked_sub(1).and_then(|last| names.get(last));
            page.token(last.unwrap_or_default())
        });
        Self { names, len, next }
    }

    /// Returns the names on the page, in order, without their namespace.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().take(self.len)
    }
}

/// Reads the last returned name from a token of this listing. Returns `None` for the empty token,
/// which requests the first page. Rejects tokens of other listings and of older versions of
/// slateberg.
pub fn decode_token(token: &str, listing: Listing) -> Result<Option<String>, Refusal> {
    if token.is_empty() {
        return Ok(None);
    }
    let broken = || {
        Refusal::invalid(
            "Invalid page token: it does not belong to this listing. Restart with an empty token",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| broken())?;
    let rest = bytes.strip_prefix(&[TOKEN_VERSION]).ok_or_else(broken)?;
    let (of, name) = rest.split_first_chunk::<LISTING_BYTES>().ok_or_else(broken)?;
    if Listing(u32::from_be_bytes(*of)) != listing {
        return Err(broken());
    }
    String::from_utf8(name.to_vec()).map(Some).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_token_round_trips() {
        let page = PageRequest { listing: Listing(7), ..PageRequest::default() };
        for name in ["a", "a.b/c d", "名前"] {
            assert_eq!(decode_token(&page.token(name), Listing(7)), Ok(Some(name.to_owned())));
            assert!(decode_token(&page.token(name), Listing(8)).is_err(), "another listing");
        }
        assert_eq!(decode_token("", Listing(7)), Ok(None));
    }

    #[test]
    fn page_excludes_the_lookahead_name() {
        let names: Arc<Names> = Arc::new(["a", "", "bc", "名前"].into_iter().collect());
        let of = |limit| PageRequest { limit, ..PageRequest::default() };
        let all = Page::cut(Arc::clone(&names), &of(None));
        assert_eq!(all.names().collect::<Vec<_>>(), ["a", "", "bc", "名前"]);
        assert_eq!(all.next, None);
        assert_eq!(Page::cut(Arc::clone(&names), &of(Some(4))).next, None);
        let first = Page::cut(names, &of(Some(3)));
        assert_eq!(first.names().collect::<Vec<_>>(), ["a", "", "bc"]);
        assert_eq!(first.next, Some(of(None).token("bc")));
    }

    #[test]
    fn forged_page_token_is_refused() {
        // The last token was created by an older version of slateberg.
        for token in ["!", "AA", "YWJj", "AgAAAAD_", "AgAA", "AWE"] {
            assert!(decode_token(token, Listing(0)).is_err(), "{token}");
        }
    }
}
