//! Resolves a client certificate to a principal.
//!
//! The handshake has already verified the certificate chain and the client's possession of the key.
//! This module determines the name in the certificate and applies the settings of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::error::RejectionReason;
use super::settings::{ClientCertificateSettings, NameFrom, SubjectKind, SubjectSettings};
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// Prefix of the ids of principals that authenticate with a certificate, such as `mtls/NAME`. No
/// token issuer may be called `mtls`, because the ids of its principals would have the same prefix.
pub(crate) const ID_PREFIX: &str = "mtls";

/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 512;

/// Maps certificates to identities.
#[derive(Debug)]
pub struct ClientCertificates {
    name_from: NameFrom,
    subjects: BTreeMap<String, SubjectSettings>,
}

/// A verified certificate of a client.
#[derive(Debug)]
pub struct PresentedCertificate {
    /// The certificate in DER. A member of a cluster forwards it to the writer.
    der: Vec<u8>,
    identity: Result<Arc<Identity>, RejectionReason>,
    not_before_ms: i64,
    not_after_ms: i64,
    trusted: AtomicBool,
}

/// The validity of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Validity {
    /// The first valid second.
    pub not_before: i64,
    /// The last valid second.
    pub not_after: i64,
}

impl Validity {
    /// Reads the validity of a certificate (DER).
    pub fn of(certificate: &[u8]) -> Result<Self, String> {
        let (_, certificate) =
            X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        Ok(Self::read(&certificate))
    }

    fn read(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        let (not_before, not_after) = (&validity.not_before, &validity.not_after);
        Self { not_before: not_before.timestamp(), not_after: not_after.timestamp() }
    }
}

impl PresentedCertificate {
    /// Returns the identity of the certificate if the certificate is valid at this time. Every
    /// request checks this, because a connection may outlive its certificate.
    pub(crate) fn valid_identity(&self, now_ms: i64) -> Result<Arc<Identity>, RejectionReason> {
        if !self.trusted.load(Ordering::Acquire) {
            return Err(RejectionReason("a certificate whose CA is no longer trusted"));
        }
        if now_ms < self.not_before_ms || now_ms > self.not_after_ms {
            return Err(RejectionReason("an expired certificate, or one that is not valid yet"));
        }
        self.identity.clone()
    }

    /// Returns the certificate in DER. `None` if its CA is no longer trusted.
    pub fn trusted_der(&self) -> Option<Vec<u8>> {
        self.trusted.load(Ordering::Acquire).then(|| self.der.clone())
    }

    /// Records, after a change of the trusted CAs, whether the certificate is still trusted.
    pub fn set_trusted(&self, trusted: bool) {
        self.trusted.store(trusted, Ordering::Release);
    }
}

impl ClientCertificates {
    /// Creates the mapping that the settings describe.
    pub fn new(settings: &ClientCertificateSettings) -> Self {
        Self { name_from: settings.name_from, subjects: settings.subjects.clone() }
    }

    /// Reads a verified certificate (DER).
    pub fn read(&self, certificate: &[u8]) -> PresentedCertificate {
        let (trusted, der) = (AtomicBool::new(true), certificate.to_vec());
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
            let identity = Err(RejectionReason("a certificate that cannot be read"));
            return PresentedCertificate {
                der,
                identity,
                not_before_ms: 0,
                not_after_ms: 0,
                trusted,
            };
        };
        let ms = |seconds: i64| seconds.saturating_mul(1000);
        let Validity { not_before, not_after } = Validity::read(&certificate);
        PresentedCertificate {
            der,
            identity: self.name_of(&certificate).map(|name| Arc::new(self.identity(&name))),
            not_before_ms: ms(not_before),
            // The certificate is valid until the end of its last second.
            not_after_ms: ms(not_after).saturating_add(999),
            trusted,
        }
    }

    fn identity(&self, name: &str) -> Identity {
        let nothing = SubjectSettings::default();
        let subject = self.subjects.get(name).unwrap_or(&nothing);
        Identity {
            kind: match subject.kind {
                SubjectKind::User => IdentityKind::User,
                SubjectKind::ServiceAccount => IdentityKind::ServiceAccount,
            },
            id: format!("{ID_PREFIX}/{name}"),
            name: name.to_owned(),
            groups: subject.groups.clone(),
            roles: subject.roles.clone(),
            method: Method::Mtls,
            warehouses: subject.warehouses.clone(),
        }
    }

    /// Returns the name in a certificate. Rejects a certificate with several names, because the CA
    /// may not have verified all of them.
    fn name_of(&self, certificate: &X509Certificate<'_>) -> Result<String, RejectionReason> {
        let names = match self.name_from {
            NameFrom::CommonName => common_names(certificate)?,
            NameFrom::DnsName | NameFrom::Uri => alternative_names(certificate, self.name_from)?,
        };
        let [name] = <[String; 1]>::try_from(names.into_iter().collect::<Vec<_>>())
            .map_err(|_| RejectionReason("a certificate that does not have exactly one name"))?;
        let fits = !name.is_empty()
            && name.chars().count() <= NAME_CHARS_MAX
            && !name.chars().any(char::is_control);
        fits.then_some(name).ok_or(RejectionReason("a certificate with an invalid name"))
    }
}

fn common_names(certificate: &X509Certificate<'_>) -> Result<BTreeSet<String>, RejectionReason> {
    let names = certificate.subject().iter_common_name();
    let texts = names.map(|name| name.as_str().map(str::to_owned));
    texts
        .collect::<Result<_, _>>()
        .map_err(|_| RejectionReason("a certificate with a name that is not text"))
}

fn alternative_names(
    certificate: &X509Certificate<'_>,
    wanted: NameFrom,
) -> Result<BTreeSet<String>, RejectionReason> {
    let found = certificate
        .subject_alternative_name()
        .map_err(|_| RejectionReason("a certificate with two lists of alternative names"))?;
    let names = found.iter().flat_map(|found| &found.value.general_names);
    Ok(names
        .filter_map(|name| match (name, wanted) {
            // Host names are case-insensitive.
            (GeneralName::DNSName(name), NameFrom::DnsName) => Some(name.to_ascii_lowercase()),
            (GeneralName::URI(name), NameFrom::Uri) => Some((*name).to_owned()),
            _ => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn certificate_expires_on_open_connections() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "etl");
        (params.not_before, params.not_after) =
            (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 1, 2));
        let key = KeyPair::generate().expect("randomness");
        let certificate = params.self_signed(&key).expect("it signs");
        let settings = ClientCertificateSettings::default();
        let presented = ClientCertificates::new(&settings).read(certificate.der());
        let from_ms = 1_767_225_600_000;
        let day_ms = 24 * 60 * 60 * 1000;
        for (now_ms, good) in [
            (from_ms - 1, false),
            (from_ms, true),
            (from_ms + day_ms + 999, true),
            (from_ms + day_ms + 1000, false),
        ] {
            assert_eq!(presented.valid_identity(now_ms).is_ok(), good, "{now_ms}");
        }
        presented.set_trusted(false);
        assert!(presented.valid_identity(from_ms).is_err());
    }

    #[test]
    fn invalid_certificate_identifies_no_principal() {
        let certificates = ClientCertificates::new(&ClientCertificateSettings::default());
        for bytes in [&b""[..], b"nothing", &[0x30, 0x82, 0xff, 0xff]] {
            assert!(certificates.read(bytes).valid_identity(0).is_err());
        }
    }
}
