//! Data keys: 32 bytes that are overwritten when they are dropped.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use slateberg_base::secret::random_bytes;

/// Bytes of a key of AES-256.
pub const BYTES: usize = 32;

/// A data key in the clear. It has no `Display`, and its `Debug` tells nothing.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct DataKey([u8; BYTES]);

impl DataKey {
    /// A new key from the operating system's randomness.
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// The key with these bytes, if they are as many as a key has.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// The key from a buffer that is overwritten behind it.
    pub fn from_buffer(bytes: Vec<u8>) -> Option<Self> {
        Self::from_bytes(&Zeroizing::new(bytes))
    }

    /// The bytes, for wrapping and deriving.
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
    fn a_data_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", DataKey::random()), "DataKey(..)");
        assert_ne!(DataKey::random(), DataKey::random());
        assert_eq!(DataKey::from_bytes(&[1; 31]), None);
    }
}
