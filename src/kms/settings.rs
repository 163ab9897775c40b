//! How what is kept is encrypted.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::Error;

/// Settings of encryption; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the wrapping key is.
    pub kms: KmsKind,
    /// A file with wrapping keys, one in base64 on each line, the current one first.
    pub local_key_file: PathBuf,
    /// The wrapping key in AWS KMS: an id, an ARN or an alias.
    pub aws_key: String,
    /// Its region; empty for what the environment says.
    pub aws_region: String,
    /// The URL of AWS KMS; empty for the region's own.
    pub aws_endpoint: String,
    /// Milliseconds that a request to the KMS may take, with all its tries.
    pub kms_timeout_ms: u64,
}

/// A kind of KMS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KmsKind {
    /// No encryption.
    #[default]
    None,
    /// A key file on this machine.
    Local,
    /// AWS KMS.
    Aws,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kms: KmsKind::None,
            local_key_file: PathBuf::new(),
            aws_key: String::new(),
            aws_region: String::new(),
            aws_endpoint: String::new(),
            kms_timeout_ms: 5000,
        }
    }
}

impl Settings {
    /// Refuses settings that lack what their KMS needs, or name what another one needs: a key that is
    /// named and not used would let one believe that it is.
    pub fn check(&self) -> Result<(), Error> {
        let has_file = !self.local_key_file.as_os_str().is_empty();
        let has_key = !self.aws_key.is_empty();
        let wrong = match self.kms {
            _ if self.kms_timeout_ms == 0 => {
                "encryption.kms_timeout_ms is 0: nothing takes no time"
            }
            KmsKind::Local if !has_file => "encryption.local_key_file is missing",
            KmsKind::Aws if !has_key => "encryption.aws_key is missing",
            KmsKind::None | KmsKind::Aws if has_file => {
                "encryption.local_key_file is set, and encryption.kms is not \"local\""
            }
            KmsKind::None | KmsKind::Local if has_key => {
                "encryption.aws_key is set, and encryption.kms is not \"aws\""
            }
            _ => return Ok(()),
        };
        Err(Error::Setting(wrong.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_would_not_be_used_is_refused() {
        let file = PathBuf::from("key");
        let with = |kms, file: &PathBuf, key: &str| {
            let aws_key = key.to_owned();
            Settings { kms, local_key_file: file.clone(), aws_key, ..Settings::default() }
        };
        let none = PathBuf::new();
        assert!(with(KmsKind::None, &none, "").check().is_ok());
        assert!(with(KmsKind::Local, &file, "").check().is_ok());
        assert!(with(KmsKind::Aws, &none, "alias/a").check().is_ok());
        assert!(with(KmsKind::None, &file, "").check().is_err());
        assert!(with(KmsKind::None, &none, "alias/a").check().is_err());
        assert!(with(KmsKind::Local, &none, "").check().is_err());
        assert!(with(KmsKind::Local, &file, "alias/a").check().is_err());
        assert!(with(KmsKind::Aws, &none, "").check().is_err());
        assert!(with(KmsKind::Aws, &file, "alias/a").check().is_err());
        assert!(Settings { kms_timeout_ms: 0, ..Settings::default() }.check().is_err());
    }
}
