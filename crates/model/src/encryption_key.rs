//! The encrypted keys of a table (v3). Each key is stored as the JSON that the client sent. Only
//! the id is also stored in parsed form.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::members::{Members, RawMembers, compact};
use super::refusal::Refusal;

/// Base64 with optional padding, as in the reference implementation.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that is stored in encrypted form ("Encryption Keys" in the table specification).
#[derive(Debug, Clone)]
pub struct EncryptionKey {
    /// The id, unique within the table.
    pub key_id: String,
    json: Box<RawValue>,
}

impl EncryptionKey {
    /// Parses an encrypted key's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let json = compact("encryption key", raw)?.into_owned();
        let members = RawMembers::parse("encryption key", json.get())?;
        let key_id = members.string("key-id")?;
        if BASE64.decode(members.string("encrypted-key-metadata")?).is_err() {
            return Err(Refusal::invalid("Cannot parse encrypted-key-metadata: not base64"));
        }
        members.opt_string("encrypted-by-id")?;
        members.opt_string_map("properties")?;
        Ok(Self { key_id, json })
    }

    /// Returns the key's JSON.
    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

impl PartialEq for EncryptionKey {
    fn eq(&self, other: &Self) -> bool {
        self.json.get() == other.json.get()
    }
}

impl Serialize for EncryptionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}
