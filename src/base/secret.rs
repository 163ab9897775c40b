//! Secrets: made of the operating system's randomness, and never shown by accident.

use std::fmt;

use rand::RngExt;
use rand::distr::Alphanumeric;
use serde::{Deserialize, Serialize};

/// A text that only its owner should see. It has no `Display`, and its `Debug` tells nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Makes a text a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that has to have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// So many random characters of `0-9A-Za-z`, of 5.95 bits each.
pub fn random_text(chars: usize) -> String {
    rand::rng().sample_iter(Alphanumeric).take(chars).map(char::from).collect()
}

/// So many random bytes.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill(&mut bytes[..]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(random_text(43), random_text(43));
        assert_ne!(random_bytes::<32>(), random_bytes::<32>());
        assert!(random_text(43).bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
