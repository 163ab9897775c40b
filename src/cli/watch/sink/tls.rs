//! TLS for connections to message brokers.

use std::path::Path;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::message::SinkError;

/// The files for TLS, with the names of the variables that contain their paths.
pub(super) struct Files {
    /// CA certificates that are trusted in addition to those of the system.
    pub(super) ca: Option<String>,
    /// Client certificate and its key.
    pub(super) client: Option<(String, String)>,
}

/// Returns the TLS settings of a client.
pub(super) fn config(files: &Files) -> Result<ClientConfig, SinkError> {
    let mut roots = RootCertStore::empty();
    // Certificates of the system that cannot be read are not trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = &files.ca {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| unreadable(file, error))?;
        }
    }
    let provider = aws_lc_rs::default_provider().into();
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| SinkError::Rejected(error.to_string()))?;
    let builder = builder.with_root_certificates(roots);
    match &files.client {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let private = PrivateKeyDer::from_pem_file(Path::new(key));
            let private = private.map_err(|error| unreadable(key, error))?;
            let config = builder.with_client_auth_cert(chain, private);
            config.map_err(|error| unreadable(certificate, error))
        }
    }
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let read = CertificateDer::pem_file_iter(Path::new(file)).and_then(Iterator::collect);
    match read {
        Ok(all) if Vec::is_empty(&all) => Err(unreadable(file, "it contains no PEM certificates")),
        Ok(all) => Ok(all),
        Err(error) => Err(unreadable(file, error)),
    }
}

fn unreadable(file: &str, error: impl std::fmt::Display) -> SinkError {
    SinkError::Rejected(format!("cannot use the file {file}: {error}"))
}

/// Whether a connection failed because the server rejects the client's certificate, or requires one.
#[cfg(feature = "nats")]
pub(super) fn is_certificate_rejected(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustls::AlertDescription as Alert;
    let causes = std::iter::successors(Some(error), |error| std::error::Error::source(*error));
    let mut tls = causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref())
        .filter_map(|cause| match cause {
            rustls::Error::AlertReceived(alert) => Some(*alert),
            _ => None,
        });
    tls.any(|alert| {
        matches!(
            alert,
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
        )
    })
}
