//! [`KeyRange`]: a range of keys.

use std::ops::Bound;

use uuid::Uuid;

use super::key_space::KeySpace;
use super::keys::{ChangeKey, Key};

/// A range of keys, in ascending order.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// Prefix of all keys in the range.
    pub prefix: Vec<u8>,
    /// Key after which the range begins, exclusively.
    pub after: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of all keys with this prefix.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), after: None }
    }

    /// Returns the range of a key space.
    pub fn all(space: KeySpace) -> Self {
        Self::prefix([space.byte()])
    }

    /// Returns the range of all keys of a space that start with this id.
    pub fn below(space: KeySpace, id: Uuid) -> Self {
        let mut prefix = vec![space.byte()];
        prefix.extend_from_slice(id.as_bytes());
        Self::prefix(prefix)
    }

    /// Returns the range of the change log that begins with the change with this number.
    pub fn changes_from(number: u64) -> Self {
        let before = number.checked_sub(1).map(|before| ChangeKey(before).encode());
        Self::all(KeySpace::Changes).behind(before)
    }

    /// Excludes the keys up to and including `key`.
    pub fn behind(mut self, key: Option<Vec<u8>>) -> Self {
        self.after = key;
        self
    }

    pub(crate) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let start = match &self.after {
            Some(after) if *after >= self.prefix => Bound::Excluded(after.clone()),
            _ => Bound::Included(self.prefix.clone()),
        };
        (start, successor(&self.prefix))
    }

    /// Returns the start of the range without the prefix. `None` if the key after which the range
    /// begins does not have the prefix.
    pub(super) fn start_after_prefix(&self) -> Option<Bound<&[u8]>> {
        match &self.after {
            Some(after) => after.strip_prefix(self.prefix.as_slice()).map(Bound::Excluded),
            None => Some(Bound::Unbounded),
        }
    }
}

/// Returns the first key after all keys with this prefix.
fn successor(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_range_ends_before_the_next_prefix() {
        assert_eq!(successor(b"a"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(successor(b"\xff"), Bound::Unbounded);
    }
}
