//! [`MemberIdentity`]: the certificate of a member. Members trust exactly the certificates whose
//! hashes are in the bucket of the state, so there is no CA and nothing to configure.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, version,
};
use sha2::{Digest, Sha256};

use crate::app::connections::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use slateberg_base::hex::hex;

/// The name in the certificates. Members do not check it.
const NAME: &str = "slateberg-member";
/// Timeout of a connection to another member.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Interval of the checks whether another member still responds, and their timeout. Together they
/// are the time after which a request to a vanished member fails.
const PING_EVERY: Duration = Duration::from_millis(500);
const PING_MAX: Duration = Duration::from_millis(1_500);

/// The certificate and the private key of a member, created at its start.
pub(super) struct MemberIdentity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    /// The SHA-256 hash of the certificate, in hexadecimal.
    pub(super) sha256: String,
}

/// The identity of a member cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The certificate cannot be created.
    #[error("cannot create the certificate of this member of the cluster: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library rejected the certificate.
    #[error("cannot use the certificate of this member of the cluster: {0}")]
    Tls(#[from] Error),
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client for other members of the cluster: {0}")]
    Client(#[from] reqwest::Error),
}

impl MemberIdentity {
    /// Creates a certificate.
    pub(super) fn generate() -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
        let certificate = certificate.der().clone();
        let sha256 = sha256(&certificate);
        Ok(Self { certificate, key: PrivatePkcs8KeyDer::from(key.serialize_der()), sha256 })
    }

    /// The server's side of TLS. Clients must present a certificate. The caller has to check
    /// whether it belongs to a member.
    pub(super) fn server_config(&self) -> Result<ServerConfig, IdentityError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(Arc::new(AnyCertificate::new()))
            .with_single_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// An HTTP client that presents the certificate of this member, and connects only to a server
    /// whose certificate has the hash `pinned`.
    pub(super) fn client(&self, pinned: &str) -> Result<reqwest::Client, IdentityError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedCertificate::new(pinned)))
            .with_client_auth_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .http2_prior_knowledge()
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_MAX)
            .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
            .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(client)
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }
}

/// Returns the SHA-256 hash of a certificate, in hexadecimal.
pub(super) fn sha256(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

/// Accepts exactly one certificate.
#[derive(Debug)]
struct PinnedCertificate {
    sha256: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedCertificate {
    fn new(sha256: &str) -> Self {
        Self { sha256: sha256.to_owned(), algorithms: algorithms() }
    }
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if sha256(end_entity) == self.sha256 {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is disabled".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts any certificate whose private key the client has.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    fn new() -> Self {
        Self { algorithms: algorithms() }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is disabled".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
