//! The format of an API key: `sb_`, 43 random characters, and a checksum of 6 characters.
//!
//! The prefix lets scanners find leaked keys. The checksum rejects typing errors and careless
//! forgeries before the server hashes the key or looks it up.

use sha2::{Digest, Sha256};

use slateberg_base::hex::hex;
use slateberg_base::secret::{Secret, random_text};

/// Prefix of every key.
pub const PREFIX: &str = "sb_";
/// 43 characters from an alphabet of 62 have 256 bits of entropy.
const RANDOM_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;
const CHARS: usize = PREFIX.len() + RANDOM_CHARS + CHECKSUM_CHARS;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// SHA-256 of a key. Only the hash is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

/// Generates a new key.
pub fn mint() -> Secret {
    let body = format!("{PREFIX}{}", random_text(RANDOM_CHARS));
    let checksum = checksum(&body);
    Secret::new(body + &checksum)
}

/// Returns the hash of a key. `None` if the string is not a well-formed key.
pub fn hash(text: &str) -> Option<KeyHash> {
    let plausible = text.len() == CHARS && text.is_ascii() && text.starts_with(PREFIX);
    let (body, sum) = plausible.then(|| text.split_at(CHARS - CHECKSUM_CHARS))?;
    (checksum(body) == sum).then(|| KeyHash(Sha256::digest(text.as_bytes()).into()))
}

fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = [0; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

impl KeyHash {
    /// Returns the hexadecimal form, as stored.
    pub(crate) fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// Parses the hexadecimal form.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn generated_key_is_valid() {
        let key = mint();
        let hash = hash(key.reveal()).expect("it is a key");
        assert_eq!(KeyHash::from_hex(&hash.to_hex()), Some(hash));
        assert_eq!(key.reveal().len(), 52);
    }

    #[test]
    fn wrong_character_in_a_key_is_detected() {
        let key = mint();
        for at in 0..key.reveal().len() {
            let mut wrong = key.reveal().to_owned().into_bytes();
            wrong[at] = if wrong[at] == b'x' { b'y' } else { b'x' };
            let wrong = String::from_utf8(wrong).expect("ASCII");
            assert_eq!(hash(&wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn other_strings_are_not_keys(text in ".*", tail in "[0-9A-Za-z]{49}") {
            prop_assert_eq!(hash(&text), None);
            // One random string in 62^6 has a valid checksum.
            prop_assert_eq!(hash(&format!("sb_{tail}")), None);
            prop_assert_eq!(KeyHash::from_hex(&text), None);
        }
    }
}
