//! TLS: loads and reloads the certificate files, and identifies clients by their certificates.

pub mod files;
mod handshake;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::watch;

use self::files::{Files, Ready, TlsError};
use slateberg_authn::client_certificates::{ClientCertificates, Presented, Validity};
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
    ready: Ready,
    /// The result of the last read, valid or not. A change of the files is evaluated only once.
    read: Result<Files, String>,
    /// Whether the configuration is that of the last read.
    is_current: bool,
    /// Client certificates, including those of closed connections until the next cleanup.
    presented: Vec<Live>,
}

#[derive(Debug)]
struct Live {
    chain: Vec<CertificateDer<'static>>,
    presented: Weak<Presented>,
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
        let files = Files::read(tls)?;
        let ready = files.ready(tls)?;
        let state = State { ready, read: Ok(files), is_current: true, presented: Vec::new() };
        Ok(Some(Arc::new(Self {
            settings: tls.clone(),
            certificates: ClientCertificates::new(&settings.authn.client_certificates),
            state: Mutex::new(state),
        })))
    }

    /// The validity of the server's certificate chain.
    pub fn validity(&self) -> Validity {
        self.state().ready.validity
    }

    /// The configuration for a new handshake.
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.state().ready.config)
    }

    /// Registers a client certificate that a handshake with `config` has verified.
    fn present(
        &self,
        config: &Arc<ServerConfig>,
        chain: &[CertificateDer<'_>],
    ) -> Option<Arc<Presented>> {
        let presented = Arc::new(self.certificates.read(chain.first()?));
        let chain: Vec<_> = chain.iter().map(|it| it.clone().into_owned()).collect();
        let mut state = self.state();
        // The files may have changed during the handshake.
        if !Arc::ptr_eq(config, &state.ready.config) {
            presented.set_trusted(trusts(state.ready.verifier.as_ref(), &chain));
        }
        if state.presented.len() == state.presented.capacity() {
            state.presented.retain(|live| live.presented.strong_count() > 0);
        }
        state.presented.push(Live { chain, presented: Arc::downgrade(&presented) });
        Some(presented)
    }

    /// Reloads changed files until the server stops. A reload is atomic: with one invalid file, the
    /// server continues to use the previous certificate and CAs.
    pub async fn watch(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(self.settings.reload()) => {}
            }
            let tls = Arc::clone(&self);
            // Reading can block on a slow disk.
            let looked = tokio::task::spawn_blocking(move || tls.look()).await;
            match looked {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => tracing::info!("TLS certificates reloaded"),
                Ok(Err(error)) => {
                    tracing::error!(%error, "TLS reload failed: keeping the previous certificate");
                }
                Err(panic) => tracing::error!(%panic, "cannot look at the TLS files"),
            }
        }
    }

    /// Reloads the files if they have changed since the last read. Returns whether they have.
    fn look(&self) -> Result<bool, TlsError> {
        let read = Files::read(&self.settings);
        let compared = read.as_ref().map(Clone::clone).map_err(ToString::to_string);
        if self.state().read == compared {
            return Ok(false);
        }
        let ready = read.and_then(|files| files.ready(&self.settings));
        let mut state = self.state();
        state.read = compared;
        state.is_current = ready.is_ok();
        state.ready = ready?;
        let verifier = state.ready.verifier.clone();
        // Existing connections lose the identity of a certificate that is no longer trusted.
        state.presented.retain(|live| {
            let Some(presented) = live.presented.upgrade() else { return false };
            presented.set_trusted(trusts(verifier.as_ref(), &live.chain));
            true
        });
        Ok(true)
    }

    /// Reports the validity of the certificate in use, and whether the last reload succeeded.
    pub fn collect(&self, into: &mut Collection) {
        let state = self.state();
        let Validity { not_before, not_after } = state.ready.validity;
        let help = "Time at which the server's certificate becomes valid.";
        let name = "slateberg.tls.certificate.not_before_timestamp";
        into.gauge(name, "s", help, Vec::new(), not_before as f64);
        let help = "Time at which the server's certificate, or one between it and its CA, expires.";
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
    let (Some(verifier), Some((own, between))) = (verifier, chain.split_first()) else {
        return false;
    };
    verifier.verify_client_cert(own, between, UnixTime::now()).is_ok()
}
