//! [`MacKey`]: a key for message authentication codes (HMAC-SHA-256), derived from a data key.

use std::fmt;

use aws_lc_rs::hkdf::Prk;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::Error;

/// Length of a code, in characters.
pub const CODE_LENGTH: usize = 44;

/// A key for message authentication codes. Its `Debug` does not show the key.
#[derive(Clone)]
pub struct MacKey(hmac::Key);

impl MacKey {
    /// Derives the key for one purpose.
    pub(super) fn derive(secret: &Prk, purpose: &[u8]) -> Result<Self, Error> {
        let key = secret.expand(&[purpose], HMAC_SHA256).map(hmac::Key::from);
        let defect = |_| Error::Setting("encryption: a MAC key cannot be derived".to_owned());
        key.map(Self).map_err(defect)
    }

    /// Returns the code of a message, in base64.
    pub fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(hmac::sign(&self.0, message))
    }

    /// Whether the code, in base64, is that of the message. The comparison takes constant time.
    pub fn verify(&self, message: &[u8], code: &[u8]) -> bool {
        STANDARD.decode(code).is_ok_and(|code| hmac::verify(&self.0, message, &code).is_ok())
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(..)")
    }
}
