//! Settings of encryption: the KMS and its wrapping key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::Error;
use slateberg_base::setting::InvalidSetting;

/// Settings of encryption. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The KMS that holds the wrapping key.
    pub kms: KmsKind,
    /// A file with wrapping keys in base64, one per line, with the current key in the first line.
    pub local_key_file: PathBuf,
    /// The wrapping key in AWS KMS: an id, an ARN or an alias.
    pub aws_key: String,
    /// The AWS region. If it is empty, the region of the environment is used.
    pub aws_region: String,
    /// The URL of AWS KMS. If it is empty, the URL of AWS KMS in the region is used.
    pub aws_endpoint: String,
    /// Timeout of a request to the KMS including all attempts, in milliseconds.
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

impl KmsKind {
    /// Returns the name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Aws => "aws",
        }
    }
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
    /// Returns the first invalid setting: a timeout of 0, a missing setting that the configured KMS
    /// needs, or the key of a KMS that is not configured. The last one is invalid because the
    /// operator would wrongly believe that this key is in use.
    pub fn problem(&self) -> Option<InvalidSetting> {
        let has_file = !self.local_key_file.as_os_str().is_empty();
        let has_key = !self.aws_key.is_empty();
        let (name, message) = match self.kms {
            _ if self.kms_timeout_ms == 0 => ("kms_timeout_ms", "expected at least 1, got 0"),
            KmsKind::Local if !has_file => {
                ("local_key_file", "is missing; it is required because encryption.kms is \"local\"")
            }
            KmsKind::Aws if !has_key => {
                ("aws_key", "is missing; it is required because encryption.kms is \"aws\"")
            }
            KmsKind::None | KmsKind::Aws if has_file => {
                ("local_key_file", "has no effect unless encryption.kms is \"local\"")
            }
            KmsKind::None | KmsKind::Local if has_key => {
                ("aws_key", "has no effect unless encryption.kms is \"aws\"")
            }
            _ => return None,
        };
        Some(InvalidSetting::new(format!("encryption.{name}"), message))
    }

    /// Rejects settings that contradict each other.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.problem().map_or(Ok(()), |problem| Err(Error::Setting(problem.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_of_another_kms_is_rejected() {
        let file = PathBuf::from("key");
        let with = |kms, file: &PathBuf, key: &str| {
            let aws_key = key.to_owned();
            Settings { kms, local_key_file: file.clone(), aws_key, ..Settings::default() }
        };
        let none = PathBuf::new();
        assert!(with(KmsKind::None, &none, "").problem().is_none());
        assert!(with(KmsKind::Local, &file, "").problem().is_none());
        assert!(with(KmsKind::Aws, &none, "alias/a").problem().is_none());
        assert!(with(KmsKind::None, &file, "").problem().is_some());
        assert!(with(KmsKind::None, &none, "alias/a").problem().is_some());
        assert!(with(KmsKind::Local, &none, "").problem().is_some());
        assert!(with(KmsKind::Local, &file, "alias/a").problem().is_some());
        assert!(with(KmsKind::Aws, &none, "").problem().is_some());
        assert!(with(KmsKind::Aws, &file, "alias/a").problem().is_some());
        assert!(Settings { kms_timeout_ms: 0, ..Settings::default() }.problem().is_some());
    }
}
