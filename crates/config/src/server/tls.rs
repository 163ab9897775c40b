//! TLS settings, including client certificates.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use slateberg_base::setting::InvalidSetting;

/// Settings of TLS. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// The server's certificate and the intermediate certificates, as PEM. Empty: no TLS.
    pub certificate_file: PathBuf,
    /// The private key of that certificate, as PEM.
    pub key_file: PathBuf,
    /// Whether clients present certificates.
    pub client_certificates: ClientCertificates,
    /// The CAs of client certificates, as PEM.
    pub client_ca_file: PathBuf,
    /// The revocation list of these CAs, as PEM. Empty: revocation is not checked.
    pub client_crl_file: PathBuf,
    /// Interval at which these files are checked for changes, in seconds.
    pub reload_seconds: u64,
    /// Maximum duration of a handshake, in seconds.
    pub handshake_seconds_max: u64,
    /// Maximum number of concurrent handshakes. Further connections are closed.
    pub handshakes_max: usize,
}

/// Whether clients present certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// The server requests no certificate.
    Off,
    /// Clients may present a certificate.
    Optional,
    /// The handshake fails without a certificate.
    Required,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificate_file: PathBuf::new(),
            key_file: PathBuf::new(),
            client_certificates: ClientCertificates::Off,
            client_ca_file: PathBuf::new(),
            client_crl_file: PathBuf::new(),
            reload_seconds: 10,
            handshake_seconds_max: 10,
            handshakes_max: 1024,
        }
    }
}

impl TlsSettings {
    /// Whether connections use TLS.
    pub fn is_on(&self) -> bool {
        !self.certificate_file.as_os_str().is_empty()
    }

    /// Returns all settings that contradict each other.
    pub fn problems(&self) -> Vec<InvalidSetting> {
        let set = |file: &PathBuf| !file.as_os_str().is_empty();
        let on = self.is_on();
        let asks = self.client_certificates != ClientCertificates::Off;
        let (has_key, has_ca, has_crl) =
            (set(&self.key_file), set(&self.client_ca_file), set(&self.client_crl_file));
        let rules = [
            (
                on && !has_key,
                "key_file",
                "is missing; it is required because certificate_file is set",
            ),
            (
                !on && has_key,
                "certificate_file",
                "is missing; it is required because key_file is set",
            ),
            (
                asks && !on && !has_key,
                "client_certificates",
                "requires certificate_file: only encrypted connections have client certificates",
            ),
            (
                asks && !has_ca,
                "client_ca_file",
                "is missing; it is required because client_certificates is not \"off\"",
            ),
            (
                !asks && has_ca,
                "client_certificates",
                "is \"off\", so client_ca_file would have no effect: choose \"optional\" or \
                 \"required\", or leave out client_ca_file",
            ),
            (has_crl && !has_ca, "client_crl_file", "requires client_ca_file"),
        ];
        let broken = rules.into_iter().filter(|(is_broken, ..)| *is_broken);
        broken
            .map(|(_, name, message)| InvalidSetting::new(format!("server.tls.{name}"), message))
            .collect()
    }

    /// Returns all configured files, with the names of their settings.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = [
            ("certificate_file", &self.certificate_file),
            ("key_file", &self.key_file),
            ("client_ca_file", &self.client_ca_file),
            ("client_crl_file", &self.client_crl_file),
        ];
        files.into_iter().filter(|(_, file)| !file.as_os_str().is_empty())
    }

    /// Returns the interval at which the files are checked for changes.
    pub fn reload(&self) -> Duration {
        Duration::from_secs(self.reload_seconds.max(1))
    }

    /// Returns the maximum duration of a handshake.
    pub fn handshake_max(&self) -> Duration {
        Duration::from_secs(self.handshake_seconds_max.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_settings_are_reported() {
        let check = |change: &dyn Fn(&mut TlsSettings)| {
            let mut settings = TlsSettings::default();
            change(&mut settings);
            settings.problems().into_iter().map(|it| it.key).collect::<Vec<_>>()
        };
        let pair = |settings: &mut TlsSettings| {
            settings.certificate_file = "c.pem".into();
            settings.key_file = "k.pem".into();
        };
        let nothing: [String; 0] = [];
        assert_eq!(check(&|_| {}), nothing);
        assert_eq!(check(&pair), nothing);
        type Change<'a> = &'a dyn Fn(&mut TlsSettings);
        let wrong: [(&[&str], Change<'_>); 5] = [
            (&["key_file"], &|settings| settings.certificate_file = "c.pem".into()),
            (&["certificate_file"], &|settings| settings.key_file = "k.pem".into()),
            (&["client_certificates", "client_ca_file"], &|settings| {
                settings.client_certificates = ClientCertificates::Optional;
            }),
            (&["client_ca_file"], &|settings| {
                pair(settings);
                settings.client_certificates = ClientCertificates::Required;
            }),
            (&["client_certificates"], &|settings| {
                pair(settings);
                settings.client_ca_file = "ca.pem".into();
            }),
        ];
        for (names, change) in wrong {
            let keys: Vec<_> = names.iter().map(|name| format!("server.tls.{name}")).collect();
            assert_eq!(check(change), keys);
        }
    }
}
