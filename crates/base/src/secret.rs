//! Secrets, and the random numbers to generate them.

use std::fmt;

use rand::RngExt;
use rand::distr::Alphanumeric;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A string that must not be shown. It has no `Display`, and its `Debug` does not contain the
/// string.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string as a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the string.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Rejects a value that is not a string. For example, an environment variable that consists
    /// only of digits is parsed as a number. The error does not contain the value, because the
    /// value may be a secret.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            _ => Err(D::Error::custom(
                "expected a string: quote a secret that consists only of digits",
            )),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Returns random characters of `0-9A-Za-z`, with 5.95 bits of entropy each.
pub fn random_text(chars: usize) -> String {
    rand::rng().sample_iter(Alphanumeric).take(chars).map(char::from).collect()
}

/// Returns random bytes.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill(&mut bytes[..]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn non_string_secret_is_rejected_without_its_value() {
        let secret: Secret = serde_json::from_str("\"0123\"").expect("it is text");
        assert_eq!(secret.reveal(), "0123");
        for other in ["271828", "[271828]", "true", "null"] {
            let error = serde_json::from_str::<Secret>(other).expect_err("it is no text");
            assert!(!error.to_string().contains("271828"), "{error}");
        }
    }

    #[test]
    fn random_values_differ() {
        assert_ne!(random_text(43), random_text(43));
        assert_ne!(random_bytes::<32>(), random_bytes::<32>());
        assert!(random_text(43).bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
