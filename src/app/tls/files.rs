//! The files of the TLS settings, and the rustls configuration built from them.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, crypto};

use slateberg_authn::client_certificates::Validity;
use slateberg_config::server::tls::{ClientCertificates, TlsSettings};

/// ALPN protocols, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Reasons why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// A file cannot be read or used.
    #[error("server.tls.{setting}: {}: {reason}", file.display())]
    File {
        /// The setting that names the file.
        setting: &'static str,
        /// The path of the file.
        file: PathBuf,
        /// The reason for the rejection.
        reason: String,
    },
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Vec<u8>,
    client_crl: Vec<u8>,
}

impl Debug for TlsFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The contents include a private key.
        f.write_str("Files")
    }
}

/// The configuration of handshakes.
#[derive(Debug)]
pub struct HandshakeConfig {
    /// The rustls configuration.
    pub config: Arc<ServerConfig>,
    /// The verifier of client certificates. `None` if client certificates are not requested.
    pub verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The validity of the server's certificate chain.
    pub validity: Validity,
}

impl TlsFiles {
    /// Reads the files of these settings.
    pub fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let read = |setting: &'static str, file: &Path| {
            if file.as_os_str().is_empty() {
                return Ok(Vec::new());
            }
            std::fs::read(file).map_err(|error| file_error(setting, file, error))
        };
        Ok(Self {
            certificate: read("certificate_file", &settings.certificate_file)?,
            key: read("key_file", &settings.key_file)?,
            client_ca: read("client_ca_file", &settings.client_ca_file)?,
            client_crl: read("client_crl_file", &settings.client_crl_file)?,
        })
    }

    /// Builds the configuration of handshakes.
    pub fn build(&self, settings: &TlsSettings) -> Result<HandshakeConfig, TlsError> {
        let certificate_error =
            |error| file_error("certificate_file", &settings.certificate_file, error);
        let key_error = |error: String| file_error("key_file", &settings.key_file, error);
        let chain: Vec<CertificateDer<'static>> =
            parse_pem("certificate_file", &settings.certificate_file, &self.certificate)?;
        let validity = validity(&chain)
            .map_err(|error| file_error("certificate_file", &settings.certificate_file, error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                key_error("contains no private key".into())
            }
            error => key_error(error.to_string()),
        })?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let verifier = self.verifier(settings, &provider)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Settings(format!("server.tls: {error}")))?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            error @ rustls::Error::InvalidCertificate(_) => certificate_error(error),
            rustls::Error::InconsistentKeys(_) => {
                key_error("it is not the key of the certificate_file".to_owned())
            }
            error => key_error(error.to_string()),
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(HandshakeConfig { config: Arc::new(config), verifier, validity })
    }

    fn verifier(
        &self,
        settings: &TlsSettings,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        if settings.client_certificates == ClientCertificates::Off {
            return Ok(None);
        }
        let file = &settings.client_ca_file;
        let ca_error = |reason: String| file_error("client_ca_file", file, reason);
        let mut roots = RootCertStore::empty();
        for certificate in
            parse_pem::<CertificateDer<'static>>("client_ca_file", file, &self.client_ca)?
        {
            roots.add(certificate).map_err(|error| ca_error(error.to_string()))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::clone(provider));
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let crl_file = &settings.client_crl_file;
        if !crl_file.as_os_str().is_empty() {
            let lists: Vec<CertificateRevocationListDer<'static>> =
                parse_pem("client_crl_file", crl_file, &self.client_crl)?;
            // If a CA has no CRL, the verifier rejects its certificates, because it cannot know
            // which of them are revoked.
            builder = builder.with_crls(lists).only_check_end_entity_revocation();
        }
        if settings.client_certificates == ClientCertificates::Optional {
            builder = builder.allow_unauthenticated();
        }
        builder.build().map(Some).map_err(|error| match error {
            rustls::server::VerifierBuilderError::InvalidCrl(error) => {
                file_error("client_crl_file", crl_file, format!("{error:?}"))
            }
            error => ca_error(error.to_string()),
        })
    }
}

/// Parses all items of one type in a PEM file. Returns an error if the file contains no such item.
fn parse_pem<T: PemObject>(
    setting: &'static str,
    file: &Path,
    text: &[u8],
) -> Result<Vec<T>, TlsError> {
    let items = T::pem_slice_iter(text).collect::<Result<Vec<T>, _>>();
    let items = items.map_err(|error| file_error(setting, file, error))?;
    match items.is_empty() {
        true if setting == "client_crl_file" => Err(file_error(setting, file, "contains no CRL")),
        true => Err(file_error(setting, file, "contains no certificate")),
        false => Ok(items),
    }
}

/// The validity of the certificate that expires first. It bounds the validity of the whole chain.
fn validity(chain: &[CertificateDer<'_>]) -> Result<Validity, String> {
    let all = chain.iter().map(|certificate| Validity::of(certificate));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    let first = all.into_iter().min_by_key(|validity| validity.not_after);
    first.ok_or_else(|| "contains no certificate".to_owned())
}

fn file_error(setting: &'static str, file: &Path, reason: impl ToString) -> TlsError {
    TlsError::File { setting, file: file.to_owned(), reason: reason.to_string() }
}
