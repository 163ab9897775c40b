//! Data keys: 32 bytes that are zeroized on drop.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use slateberg_base::secret::random_bytes;

/// Length of an AES-256 key, in bytes.
pub const BYTES: usize = 32;

/// An unencrypted data key. It has no `Display`, and its `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct DataKey([u8; BYTES]);

impl DataKey {
    /// Generates a key from the operating system's random numbers.
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// Creates a key from these bytes. `None` if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// Creates a key from a buffer, which is zeroized.
    pub(crate) fn from_buffer(bytes: Vec<u8>) -> Option<Self> {
        Self::from_bytes(&Zeroizing::new(bytes))
    }

    /// Returns the bytes, for wrapping and derivation.
    pub(super) fn reveal(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_data_key() {
        assert_eq!(format!("{:?}", DataKey::random()), "DataKey(..)");
        assert_ne!(DataKey::random(), DataKey::random());
        assert_eq!(DataKey::from_bytes(&[1; 31]), None);
    }
}
