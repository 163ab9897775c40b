//! A KMS that consists of a file. The file contains wrapping keys in base64, one per line, with the
//! current key in the first line. It is for machines that store this file separately from the
//! store, or get it from a secret manager.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::data_key::DataKey;
use super::error::Error;
use super::{Binding, Kms, WrappedBytes};
use slateberg_base::hex::hex;
use slateberg_base::secret::random_bytes;

/// Maximum size of a key file, in bytes. A longer file is invalid.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The wrapping keys of a file. The file is read for every operation, so that an operator can add a
/// new key while the server runs.
pub struct LocalKms {
    file: PathBuf,
}

/// A wrapping key. Its name reveals nothing about the key.
struct WrappingKey {
    name: String,
    key: LessSafeKey,
}

impl LocalKms {
    /// Reads the file once to validate it.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let kms = Self { file: file.to_owned() };
        kms.keys()?;
        Ok(kms)
    }

    fn keys(&self) -> Result<Vec<WrappingKey>, Error> {
        let text = read(&self.file).map_err(|error| self.invalid(&error.to_string()))?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<_> = lines.map(|line| self.key(line)).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(self.invalid("there is no key in it"));
        }
        Ok(keys)
    }

    fn key(&self, line: &str) -> Result<WrappingKey, Error> {
        // The error must not contain the line, because most of it may be a key.
        let shape = || {
            self.invalid("each line must be 32 bytes in base64, as from openssl rand -base64 32")
        };
        let bytes = Zeroizing::new(STANDARD.decode(line).map_err(|_| shape())?);
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| shape())?;
        let name = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), b"slateberg key name");
        let name = hex(&name.as_ref()[..8]);
        Ok(WrappingKey { name, key: LessSafeKey::new(key) })
    }

    fn invalid(&self, reason: &str) -> Error {
        let file = self.file.display();
        Error::Setting(format!("encryption.local_key_file: {file}: {reason}"))
    }
}

fn read(file: &Path) -> std::io::Result<Zeroizing<String>> {
    let length = std::fs::metadata(file)?.len();
    if length > FILE_BYTES_MAX {
        return Err(std::io::Error::other("the file is too long for a key file"));
    }
    std::fs::read_to_string(file).map(Zeroizing::new)
}

#[async_trait]
impl Kms for LocalKms {
    fn kind(&self) -> &'static str {
        "local"
    }

    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<WrappedBytes, Error> {
        let keys = self.keys()?;
        let key = keys.iter().find(|key| wrapping_key.is_none_or(|name| key.name == name));
        let key = key.ok_or_else(|| {
            self.invalid(&format!("there is no key {} in it", wrapping_key.unwrap_or_default()))
        })?;
        let nonce: [u8; NONCE_LEN] = random_bytes();
        let mut bytes = nonce.to_vec();
        let mut text = Zeroizing::new(data_key.reveal().to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.key.seal_in_place_separate_tag(nonce, aad(binding), &mut text);
        let tag = tag.map_err(|_| self.invalid("its wrapping key cannot wrap a data key"))?;
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(tag.as_ref());
        Ok(WrappedBytes { wrapping_key: key.name.clone(), bytes })
    }

    async fn unwrap(&self, wrapped: &WrappedBytes, binding: &Binding) -> Result<DataKey, Error> {
        let keys = self.keys()?;
        let key = keys.iter().find(|key| key.name == wrapped.wrapping_key).ok_or_else(|| {
            let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
            self.invalid(&format!(
                "data key {} is wrapped with key {}, but the file contains only {}",
                binding.data_key,
                wrapped.wrapping_key,
                names.join(", ")
            ))
        })?;
        let invalid = || Error::WrongKey {
            data_key: binding.data_key,
            wrapping_key: wrapped.wrapping_key.clone(),
        };
        let (nonce, text) = wrapped.bytes.split_first_chunk().ok_or_else(invalid)?;
        let mut text = Zeroizing::new(text.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.key.open_in_place(nonce, aad(binding), &mut text).map_err(|_| invalid())?;
        DataKey::from_bytes(plain).ok_or_else(invalid)
    }
}

fn aad(binding: &Binding) -> Aad<Vec<u8>> {
    let pairs = binding.pairs().map(|(name, value)| format!("{name}={value}"));
    Aad::from(pairs.join("\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::NamedTempFile;
    use uuid::Uuid;

    use super::*;

    fn file(lines: &[&[u8]]) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("there is room");
        for line in lines {
            writeln!(file, "{}", STANDARD.encode(line)).expect("there is room");
        }
        file
    }

    const BINDING: Binding = Binding { catalog: Uuid::nil(), data_key: 1 };

    #[tokio::test]
    async fn data_key_unwraps_only_with_its_binding() {
        let file = file(&[&[1; 32]]);
        let kms = LocalKms::open(file.path()).expect("it is a key file");
        let data_key = DataKey::random();
        let wrapped = kms.wrap(&data_key, &BINDING, None).await.expect("it can be wrapped");
        assert_eq!(kms.unwrap(&wrapped, &BINDING).await.ok(), Some(data_key));
        let others =
            [Binding { data_key: 2, ..BINDING }, Binding { catalog: Uuid::max(), ..BINDING }];
        for other in others {
            let result = kms.unwrap(&wrapped, &other).await;
            assert!(matches!(result, Err(Error::WrongKey { .. })), "{result:?}");
        }
        for at in 0..wrapped.bytes.len() {
            let mut flipped = wrapped.clone();
            flipped.bytes[at] ^= 1;
            assert!(kms.unwrap(&flipped, &BINDING).await.is_err(), "byte {at}");
        }
    }

    #[tokio::test]
    async fn first_key_wraps_and_older_keys_unwrap() {
        let (old, both) = (file(&[&[1; 32]]), file(&[&[2; 32], &[1; 32]]));
        let data_key = DataKey::random();
        let kms = LocalKms::open(old.path()).expect("it is a key file");
        let wrapped = kms.wrap(&data_key, &BINDING, None).await.expect("it can be wrapped");
        let kms = LocalKms::open(both.path()).expect("it is a key file");
        assert_eq!(kms.unwrap(&wrapped, &BINDING).await.ok().as_ref(), Some(&data_key));
        let anew = kms.wrap(&data_key, &BINDING, None).await.expect("it can be wrapped");
        assert_ne!(anew.wrapping_key, wrapped.wrapping_key);
        let named = kms.wrap(&data_key, &BINDING, Some(&wrapped.wrapping_key)).await;
        assert_eq!(named.ok().map(|named| named.wrapping_key), Some(wrapped.wrapping_key));
    }

    #[test]
    fn invalid_key_file_is_rejected_without_its_content() {
        for lines in [&[][..], &[&[1; 31][..]], &[&[1; 32][..], b"short"]] {
            let file = file(lines);
            let result = LocalKms::open(file.path()).err().expect("it is no key file");
            let text = result.to_string();
            assert!(text.contains("local_key_file"), "{text}");
            assert!(!text.contains(&STANDARD.encode([1; 31])), "{text}");
        }
        assert!(LocalKms::open(Path::new("/nowhere")).is_err());
    }
}
