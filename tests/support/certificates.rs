//! [`TestCa`]: a CA that signs certificates for servers and clients, and revokes them.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams,
    CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use slateberg_config::server::tls::{ClientCertificates, TlsSettings};

/// A CA.
pub struct TestCa(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct TestCertificate {
    pub certificate: Certificate,
    pub serial: u64,
    key: KeyPair,
}

impl TestCertificate {
    /// Returns both as one PEM file for clients.
    pub fn pem(&self) -> String {
        self.certificate.pem() + &self.key.serialize_pem()
    }
}

impl TestCa {
    /// Returns a new CA.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("CA of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("randomness");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs"))
    }

    /// Returns its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for 127.0.0.1 and localhost.
    pub fn server(&self) -> TestCertificate {
        self.server_with(|_| {})
    }

    /// Like [`server`](Self::server), with changes.
    pub fn server_with(&self, change: impl FnOnce(&mut CertificateParams)) -> TestCertificate {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names).expect("valid names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        self.sign(params, 1)
    }

    /// Returns a certificate for a client with this common name and nothing else.
    pub fn client(&self, name: &str) -> TestCertificate {
        self.client_with(name, 2, |_| {})
    }

    /// Like [`client`](Self::client), with a serial number and changes.
    pub fn client_with(
        &self,
        name: &str,
        serial: u64,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TestCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        self.sign(params, serial)
    }

    fn sign(&self, mut params: CertificateParams, serial: u64) -> TestCertificate {
        let key = KeyPair::generate().expect("randomness");
        params.serial_number = Some(SerialNumber::from(serial));
        let certificate = params.signed_by(&key, &self.0).expect("it signs");
        TestCertificate { certificate, serial, key }
    }

    /// Returns a list of revoked certificates.
    pub fn revoke(&self, revoked: &[&TestCertificate]) -> String {
        let revoked_certs = revoked.iter().map(|certificate| RevokedCertParams {
            serial_number: SerialNumber::from(certificate.serial),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).expect("it signs").pem().expect("it can be written")
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    if !name.is_empty() {
        names.push(DnType::CommonName, name);
    }
    names
}

/// A directory with the files of a server's TLS.
pub struct TlsFiles(tempfile::TempDir);

impl TlsFiles {
    /// Creates the files of a server with this certificate.
    pub fn of(server: &TestCertificate) -> Self {
        let files = Self(tempfile::tempdir().expect("there is room"));
        files.write_server(server);
        files
    }

    /// Replaces the certificate.
    pub fn write_server(&self, server: &TestCertificate) {
        self.write("key.pem", &server.key.serialize_pem());
        self.write("server.pem", &server.certificate.pem());
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it is written");
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::join(self.0.path(), name)
    }

    /// Returns settings with these files, which are checked for changes often.
    pub fn settings(&self) -> TlsSettings {
        TlsSettings {
            certificate_file: self.path("server.pem"),
            key_file: self.path("key.pem"),
            reload_seconds: 1,
            ..TlsSettings::default()
        }
    }

    /// Like [`settings`](Self::settings), with client certificates of this CA.
    pub fn asking(&self, ca: &TestCa, client_certificates: ClientCertificates) -> TlsSettings {
        self.write("clients.pem", &ca.pem());
        let client_ca_file = self.path("clients.pem");
        TlsSettings { client_certificates, client_ca_file, ..self.settings() }
    }
}
