//! How connections are encrypted, and whether clients show certificates.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of TLS; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// The server's certificate and those between it and its CA, as PEM; empty for no TLS.
    pub certificate_file: PathBuf,
    /// The private key of that certificate, as PEM.
    pub key_file: PathBuf,
    /// Whether clients show a certificate.
    pub client_certificates: ClientCertificates,
    /// The CAs that sign the certificates of clients, as PEM.
    pub client_ca_file: PathBuf,
    /// What those CAs have revoked, as PEM; empty if nobody looks.
    pub client_crl_file: PathBuf,
    /// Seconds between two looks at whether these files have changed.
    pub reload_seconds: u64,
    /// Seconds that a handshake may take.
    pub handshake_seconds_max: u64,
    /// Handshakes that may be under way; further connections are closed.
    pub handshakes_max: usize,
}

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// They are not asked for one.
    Off,
    /// They may.
    Optional,
    /// Who shows none does not get through the handshake.
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
    /// Whether connections are to be encrypted.
    pub fn is_on(&self) -> bool {
        !self.certificate_file.as_os_str().is_empty()
    }

    /// Whether connections are encrypted; or what is wrong with the settings in themselves.
    pub fn check(&self) -> Result<bool, String> {
        let set = |file: &PathBuf| !file.as_os_str().is_empty();
        let on = set(&self.certificate_file);
        let asks = self.client_certificates != ClientCertificates::Off;
        let problem = match () {
            () if on && !set(&self.key_file) => "server.tls.key_file: there is a certificate_file",
            () if !on && set(&self.key_file) => "server.tls.certificate_file: there is a key_file",
            () if asks && !on => "server.tls.client_certificates: expected a certificate_file too",
            () if asks && !set(&self.client_ca_file) => {
                "server.tls.client_ca_file: expected the CAs of the client_certificates"
            }
            () if !asks && set(&self.client_ca_file) => {
                "server.tls.client_certificates: there is a client_ca_file, which is of no use \
                 while they are \"off\""
            }
            () if set(&self.client_crl_file) && !set(&self.client_ca_file) => {
                "server.tls.client_crl_file: expected a client_ca_file too"
            }
            () => return Ok(on),
        };
        Err(problem.to_owned())
    }

    /// Between two looks at the files.
    pub fn reload(&self) -> Duration {
        Duration::from_secs(self.reload_seconds.max(1))
    }

    /// For how long a handshake may go on.
    pub fn handshake_max(&self) -> Duration {
        Duration::from_secs(self.handshake_seconds_max.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        let check = |change: &dyn Fn(&mut TlsSettings)| {
            let mut settings = TlsSettings::default();
            change(&mut settings);
            settings.check()
        };
        let pair = |settings: &mut TlsSettings| {
            settings.certificate_file = "c.pem".into();
            settings.key_file = "k.pem".into();
        };
        assert_eq!(check(&|_| {}), Ok(false));
        assert_eq!(check(&pair), Ok(true));
        type Change<'a> = &'a dyn Fn(&mut TlsSettings);
        let wrong: [(&str, Change<'_>); 5] = [
            ("key_file", &|settings| settings.certificate_file = "c.pem".into()),
            ("certificate_file", &|settings| settings.key_file = "k.pem".into()),
            ("client_certificates", &|settings| {
                settings.client_certificates = ClientCertificates::Optional;
            }),
            ("client_ca_file", &|settings| {
                pair(settings);
                settings.client_certificates = ClientCertificates::Required;
            }),
            ("client_certificates", &|settings| {
                pair(settings);
                settings.client_ca_file = "ca.pem".into();
            }),
        ];
        for (name, change) in wrong {
            let error = check(change).expect_err(name);
            assert!(error.starts_with(&format!("server.tls.{name}: ")), "{error}");
        }
    }
}
