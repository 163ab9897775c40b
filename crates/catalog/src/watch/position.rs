//! [`Position`]: a place in the change feed, at which a watch can be resumed.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::{Error, Operation, Result};
use slateberg_authz::policy_set::PolicySet;
use slateberg_model::members::brief;
use slateberg_model::principal::Principal;

/// The version of the encoding.
const VERSION: u8 = 1;
/// The size of an encoded position: the version and three numbers.
const BYTES: usize = 25;

/// A place in the change feed. Clients receive it as an opaque string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The numbering of the change log that `next` belongs to.
    pub(super) timeline: Timeline,
    /// The number of the next change.
    pub(super) next: u64,
    /// The permissions of the caller when the earlier events were selected.
    pub(super) view: View,
}

/// Identifies a numbering of the change log. A restore, an import and a clone start a new
/// numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timeline(u64);

/// Identifies what a caller may see. It is a hash of the policies in force and of the caller's id,
/// roles, groups and warehouses. Zero if nothing is hidden from the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View(u64);

impl From<Uuid> for Timeline {
    fn from(id: Uuid) -> Self {
        // Half of a random id is sufficient, because there are only few timelines.
        Self(id.as_u64_pair().1)
    }
}

impl View {
    /// Returns the identifier of what the caller may see at present.
    pub(super) fn of(operation: &Operation, policies: &PolicySet) -> Self {
        let Principal::Identified(identity) = &operation.principal else { return Self(0) };
        // The hash may differ between releases. The only effect is that clients list their
        // resources once more.
        let mut hash = DefaultHasher::new();
        policies.revision().hash(&mut hash);
        (&identity.id, &identity.roles, &identity.groups, &identity.warehouses).hash(&mut hash);
        Self(hash.finish())
    }
}

impl Position {
    /// Returns an id of the transaction that ends at this position. Unlike the position, it does not
    /// depend on the caller.
    pub fn event_id(&self) -> String {
        Self { view: View(0), ..*self }.to_string()
    }

    /// Parses the text that a client received.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let decoded = URL_SAFE_NO_PAD.decode(text).ok();
        let decoded = decoded.and_then(|bytes| <[u8; BYTES]>::try_from(bytes).ok());
        let Some([VERSION, numbers @ ..]) = decoded else {
            return Err(Error::Invalid(format!(
                "Invalid position: '{}'. Use one that the server returned, or 'oldest'",
                brief(text)
            )));
        };
        let number = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&numbers[index * 8..][..8]);
            u64::from_be_bytes(bytes)
        };
        Ok(Self { timeline: Timeline(number(0)), next: number(1), view: View(number(2)) })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [VERSION; BYTES];
        let numbers = [self.timeline.0, self.next, self.view.0];
        for (chunk, number) in bytes[1..].chunks_exact_mut(8).zip(numbers) {
            chunk.copy_from_slice(&number.to_be_bytes());
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_parsed_from_its_text() {
        let position = Position { timeline: Timeline(u64::MAX), next: 1 << 40, view: View(7) };
        let text = position.to_string();
        assert_eq!(Position::parse(&text), Ok(position));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    }

    #[test]
    fn other_texts_are_rejected() {
        let position = Position { timeline: Timeline(1), next: 2, view: View(3) }.to_string();
        let newer = URL_SAFE_NO_PAD.encode([2; BYTES]);
        for text in ["", "0", "oldest", &position[1..], &format!("{position}AAAA"), "ä", &newer] {
            let error = Position::parse(text).expect_err(text);
            assert_eq!(error.kind(), crate::error::Kind::Invalid);
        }
    }
}
