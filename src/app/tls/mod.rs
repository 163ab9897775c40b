//! TLS: loads and reloads the certificate files, and identifies clients by their certificates.

pub mod files;
pub mod handshake;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::watch;

use self::files::{HandshakeConfig, TlsError, TlsFiles};
use slateberg_authn::client_certificates::{ClientCertificates, PresentedCertificate, Validity};
use slateberg_config::Settings;
use slateberg_config::server::tls::TlsSettings;
use slateberg_telemetry::collection::Collection;

/// The server's side of TLS. Its certificate and its CAs can change while the server runs.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    certificates: ClientCertificates,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The configuration of the last valid files.
    handshake_config: HandshakeConfig,
    /// The result of the last read, valid or not. The next read is compared with it, so that each
    /// change of the files is evaluated only once.
    read: Result<TlsFiles, String>,
    /// Whether the configuration in use is from the last read.
    is_current: bool,
    /// The client certificates of open connections. Certificates of closed connections stay here
    /// until the next cleanup.
    presented: Vec<PresentedChain>,
}

#[derive(Debug)]
struct PresentedChain {
    chain: Vec<CertificateDer<'static>>,
    presented: Weak<PresentedCertificate>,
}

impl Tls {
    /// Reads the files of the settings. Returns `None` if TLS is off.
    pub fn open(settings: &Settings) -> Result<Option<Arc<Self>>, TlsError> {
        let tls = &settings.server.tls;
        if let Some(problem) = tls.problems().first() {
            return Err(TlsError::Settings(problem.to_string()));
        }
        if !tls.is_on() {
            return Ok(None);
        }
        let files = TlsFiles::read(tls)?;
        let handshake_config = files.build(tls)?;
        let state =
            State { handshake_config, read: Ok(files), is_current: true, presented: Vec::new() };
        Ok(Some(Arc::new(Self {
            settings: tls.clone(),
            certificates: ClientCertificates::new(&settings.authn.client_certificates),
            state: Mutex::new(state),
        })))
    }

    /// The validity of the server's certificate chain.
    pub fn validity(&self) -> Validity {
        self.state().handshake_config.validity
    }

    /// The configuration for a new handshake.
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.state().handshake_config.config)
    }

    /// Registers a client certificate that a handshake with `config` has verified.
    fn register(
        &self,
        config: &Arc<ServerConfig>,
        chain: &[CertificateDer<'_>],
    ) -> Option<Arc<PresentedCertificate>> {
        let presented = Arc::new(self.certificates.read(chain.first()?));
        let chain: Vec<_> = chain.iter().map(|it| it.clone().into_owned()).collect();
        let mut state = self.state();
        // If the files have changed during the handshake, the new CAs decide whether the
        // certificate is trusted.
        if !Arc::ptr_eq(config, &state.handshake_config.config) {
            presented.set_trusted(trusts(state.handshake_config.verifier.as_ref(), &chain));
        }
        if state.presented.len() == state.presented.capacity() {
            state.presented.retain(|entry| entry.presented.strong_count() > 0);
        }
        state.presented.push(PresentedChain { chain, presented: Arc::downgrade(&presented) });
        Some(presented)
    }

    /// Reloads changed files until the server stops. A reload is atomic: if one file is invalid,
    /// the server continues to use the previous certificate and CAs.
    pub async fn watch(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(self.settings.reload()) => {}
            }
            let tls = Arc::clone(&self);
            // Reading can block on a slow disk.
            let reloaded = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
            match reloaded {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => tracing::info!("TLS certificates reloaded"),
                Ok(Err(error)) => {
                    tracing::error!(%error, "TLS reload failed: keeping the previous certificate");
                }
                Err(panic) => tracing::error!(%panic, "the check for changed TLS files failed"),
            }
        }
    }

    /// Reloads the files if they have changed since the last read. Returns true if they have
    /// changed.
    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let read = TlsFiles::read(&self.settings);
        let compared = read.as_ref().map(Clone::clone).map_err(ToString::to_string);
        if self.state().read == compared {
            return Ok(false);
        }
        let handshake_config = read.and_then(|files| files.build(&self.settings));
        let mut state = self.state();
        state.read = compared;
        state.is_current = handshake_config.is_ok();
        state.handshake_config = handshake_config?;
        let verifier = state.handshake_config.verifier.clone();
        // A connection loses its identity if its client certificate is no longer trusted.
        state.presented.retain(|entry| {
            let Some(presented) = entry.presented.upgrade() else { return false };
            presented.set_trusted(trusts(verifier.as_ref(), &entry.chain));
            true
        });
        Ok(true)
    }

    /// Reports the validity of the certificate in use, and whether the last reload succeeded.
    pub fn collect(&self, into: &mut Collection) {
        let state = self.state();
        let Validity { not_before, not_after } = state.handshake_config.validity;
        let help = "Time at which the server's certificate becomes valid.";
        let name = "slateberg.tls.certificate.not_before_timestamp";
        into.gauge(name, "s", help, Vec::new(), not_before as f64);
        let help = "Time at which the first certificate of the server's chain expires.";
        let name = "slateberg.tls.certificate.expiration_timestamp";
        into.gauge(name, "s", help, Vec::new(), not_after as f64);
        let help = "Whether the TLS files are in use: 0 if the last reload failed.";
        let is_current = f64::from(u8::from(state.is_current));
        into.gauge("slateberg.tls.last_reload_successful", "1", help, Vec::new(), is_current);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the verifier accepts a chain now.
fn trusts(verifier: Option<&Arc<dyn ClientCertVerifier>>, chain: &[CertificateDer<'_>]) -> bool {
    let (Some(verifier), Some((leaf, intermediates))) = (verifier, chain.split_first()) else {
        return false;
    };
    verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_ok()
}
