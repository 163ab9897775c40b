//! [`RecordSigner`]: authenticates the records of a cluster on an encrypted state.
//!
//! Members trust the addresses and the certificates in the records. A process that can write to the
//! bucket but cannot unlock the state must not get data by posing as a member. So in the bucket of an
//! encrypted state, each record ends with a MAC. Its key is derived from the key ring, which requires
//! access to the KMS.
//!
//! The MAC covers the path of the object and all bytes before the MAC, so a record is valid only at
//! its own path. It contains no time, so it stays valid after its member has ended. But to connect to
//! a member, or to pose as one, a process also needs the private key of the certificate. This key
//! exists only in the memory of the member that created it.

use slateberg_kms as kms;
use slateberg_kms::mac_key::{CODE_LENGTH, MacKey};
use slateberg_store::encryption::SharedKeys;

/// The purpose of the key.
const PURPOSE: &[u8] = b"slateberg cluster record";
/// The end of a record without a MAC.
const JSON_END: &[u8] = b"\n}";
/// The begin and the end of the last member of a signed record. Its value is the MAC.
const MAC_BEGIN: &[u8] = b",\n  \"mac\": \"";
const MAC_END: &[u8] = b"\"\n}";

/// Signs the records of a cluster, and checks them. Does nothing if the state is not encrypted. Cheap
/// to clone.
#[derive(Debug, Clone)]
pub struct RecordSigner {
    key: Option<MacKey>,
}

/// A record has no valid MAC.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no member of the cluster has written this object: its MAC is missing or wrong")]
pub struct ForeignRecord;

impl RecordSigner {
    /// Creates the signer for a state with these keys. `None` if the state is not encrypted.
    pub fn new(keys: Option<&SharedKeys>) -> Result<Self, kms::Error> {
        let key = keys.map(|keys| keys.mac_key(PURPOSE)).transpose()?;
        Ok(Self { key })
    }

    /// Creates a signer that accepts every record.
    pub(super) fn unchecked() -> Self {
        Self { key: None }
    }

    /// Adds the MAC to a record in pretty-printed JSON. `path` is the path of the object below the
    /// location of the state.
    pub(super) fn sign(&self, path: &str, json: Vec<u8>) -> Vec<u8> {
        let Some(key) = &self.key else { return json };
        let body = json.strip_suffix(JSON_END).unwrap_or(&json);
        let mac = key.sign(&message(path, body));
        [body, MAC_BEGIN, mac.as_bytes(), MAC_END].concat()
    }

    /// Errors unless a process that has unlocked the state has written this content to this path.
    pub(super) fn check(&self, path: &str, content: &[u8]) -> Result<(), ForeignRecord> {
        let Some(key) = &self.key else { return Ok(()) };
        let (body, mac) = split(content).ok_or(ForeignRecord)?;
        key.verify(&message(path, body), mac).then_some(()).ok_or(ForeignRecord)
    }
}

/// Returns the bytes that a MAC covers. A path contains no zero byte.
fn message(path: &str, body: &[u8]) -> Vec<u8> {
    [path.as_bytes(), &[0], body].concat()
}

/// Splits a signed record into the bytes before the MAC, and the MAC.
fn split(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let signed = content.strip_suffix(MAC_END)?;
    let (body, mac) = signed.split_at_checked(signed.len().checked_sub(CODE_LENGTH)?)?;
    Some((body.strip_suffix(MAC_BEGIN)?, mac))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::{Value, json};
    use tempfile::NamedTempFile;

    use super::*;
    use crate::dependencies::Dependencies;
    use crate::state::State;
    use slateberg_config::Settings;
    use slateberg_kms::settings::KmsKind;
    use slateberg_store::encryption::IfMissing;

    const PATH: &str = "cluster/writer.json";

    /// Returns the signer of a new encrypted state.
    async fn signer() -> RecordSigner {
        let mut file = NamedTempFile::new().expect("there is room");
        writeln!(file, "{}=", "A".repeat(43)).expect("there is room");
        let mut settings = Settings::default();
        settings.state.url = "memory:///state".to_owned();
        settings.encryption.kms = KmsKind::Local;
        settings.encryption.local_key_file = file.path().to_owned();
        let state = State::offline(&settings, &Dependencies::default()).await;
        let keys = state.expect("it opens").unlock(IfMissing::Create).await.expect("it is new");
        RecordSigner::new(Some(&keys.expect("it is encrypted"))).expect("there is a key")
    }

    fn record() -> (Value, Vec<u8>) {
        let record = json!({ "format": 1, "peer": { "url": "https://10.2.3.4:9182" } });
        let json = serde_json::to_vec_pretty(&record).expect("JSON");
        (record, json)
    }

    #[tokio::test]
    async fn signed_record_is_the_record_with_a_mac() {
        let (mut expected, json) = record();
        let signer = signer().await;
        let signed = signer.sign(PATH, json);
        assert_eq!(signer.check(PATH, &signed), Ok(()));
        let parsed: Value = serde_json::from_slice(&signed).expect("JSON");
        expected["mac"] = parsed["mac"].clone();
        assert_eq!(parsed, expected);
    }

    #[tokio::test]
    async fn changed_record_is_rejected() {
        let signer = signer().await;
        let signed = signer.sign(PATH, record().1);
        for bit in 0..signed.len() * 8 {
            let mut flipped = signed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(signer.check(PATH, &flipped), Err(ForeignRecord), "bit {bit}");
        }
        for length in 0..signed.len() {
            assert_eq!(signer.check(PATH, &signed[..length]), Err(ForeignRecord), "{length} bytes");
        }
        let longer = [signed.as_slice(), b"\n"].concat();
        assert_eq!(signer.check(PATH, &longer), Err(ForeignRecord));
    }

    #[tokio::test]
    async fn record_of_another_process_is_rejected() {
        let (signer, other) = (signer().await, signer().await);
        let json = record().1;
        let foreign = [
            json.clone(),
            other.sign(PATH, json.clone()),
            RecordSigner::unchecked().sign(PATH, json.clone()),
            // A record of this state, from another path.
            signer.sign("cluster/members/00ff.json", json),
        ];
        for content in foreign {
            assert_eq!(signer.check(PATH, &content), Err(ForeignRecord));
        }
    }

    #[test]
    fn records_of_an_unencrypted_state_are_unchanged() {
        let json = record().1;
        let signer = RecordSigner::new(None).expect("it needs no key");
        assert_eq!(signer.sign(PATH, json.clone()), json);
        assert_eq!(signer.check(PATH, &json), Ok(()));
    }
}
