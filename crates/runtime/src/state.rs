//! The location of the catalog's state, from which a store can be opened.
//!
//! `state.start_seconds_max` limits the time for which a start waits for an unresponsive bucket.
//! The start first probes the bucket, and retries until this limit while there is no response
//! (`State::probe`). After that, the start may take any time, for example to replay a long log. It
//! fails only if the bucket stops responding for longer than the limit (`State::while_responsive`).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use super::data_dir::{STATE_DIR, check_there, data_dir_url};
use super::dependencies::Dependencies;
use super::directory_probe;
use super::error::{BuildError, at_state};
use super::locations;
use super::warehouses::{Keys, open};
use slateberg_base::retry::Backoff;
use slateberg_config::Settings;
use slateberg_kms as kms;
use slateberg_kms::measured::measured as measured_kms;
use slateberg_objects::hedged::hedged;
use slateberg_objects::measured::measured;
use slateberg_objects::open::{Opened, Opener};
use slateberg_objects::ping;
use slateberg_objects::probe::{self, Findings, ProbeError, probe_state};
use slateberg_store::Store;
use slateberg_store::encryption::{Encryption, IfMissing, SharedKeys};
use slateberg_store::open::StoreLocation;
use slateberg_store::separate_log::Log;
use slateberg_store::storage::Storage;
use slateberg_telemetry::requests::{HedgedPuts, RequestMetrics};

/// Timeout of one attempt to probe a bucket.
const TRY_MAX: Duration = Duration::from_secs(10);
/// Delays between attempts.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Interval and timeout of checks that a bucket still responds.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// A start logs a warning if the clocks of this machine and of the object store differ by at least
/// this number of milliseconds.
const CLOCK_SKEW_WARNED_MS: u64 = 10_000;

/// The location of the state.
pub struct State {
    /// The URL of the state.
    pub url: String,
    /// The parts from which the store is opened.
    pub location: StoreLocation,
    /// The object stores and their URLs: the store of the state and, if the log has another store,
    /// the store of the log.
    parts: Vec<(String, Opened)>,
    patience: Duration,
}

impl State {
    /// Opens the configured object stores. Sends no request.
    pub fn of(settings: &Settings, dependencies: &Dependencies) -> Result<Self, BuildError> {
        let opener = &dependencies.opener;
        let url = match settings.state.url.trim_end_matches('/') {
            "" => data_dir_url(settings, STATE_DIR)?,
            url => url.to_owned(),
        };
        let options = &settings.state.options;
        let keys = keys("state.url", "state.options", options);
        let opened = open(&url, options, settings, opener, &keys)?;
        let storage = Storage::default();
        let mut location = StoreLocation {
            object_store: storage.watch(opened.object_store.clone(), opened.directory.is_some()),
            path: opened.path.to_string(),
            conditional_update: opened.conditional_update,
            directory: opened.directory.clone(),
            log: None,
            encryption: None,
            storage: storage.clone(),
        };
        let mut parts = vec![(url.clone(), opened)];
        if let Some((log_url, opened)) = open_log(settings, opener)? {
            if location.directory.is_some() {
                return Err(BuildError::Setting(
                    "state.wal_url: a state in a local directory stores its log in the same directory: \
                     remove this setting"
                        .to_owned(),
                ));
            }
            location.log = Some(Log {
                object_store: storage.watch(opened.object_store.clone(), false),
                path: opened.path.clone(),
                url: log_url.clone(),
                state_url: url.clone(),
                id: dependencies.ids.random(),
            });
            // Objects of a log are written once and never replaced.
            parts.push((log_url, Opened { conditional_update: false, ..opened }));
        }
        let patience = settings.state.start_timeout();
        Ok(Self { url, location, parts, patience })
    }

    /// Returns the object store of the state.
    pub fn opened(&self) -> &Opened {
        &self.parts[0].1
    }

    /// Returns the object stores and their URLs: the store of the state and, if the log has another
    /// store, the store of the log.
    pub fn parts(&self) -> &[(String, Opened)] {
        &self.parts
    }

    /// Opens the configured object stores and the KMS. Rejects a state that overlaps with a
    /// warehouse. Every command that opens the store runs this check.
    pub(super) async fn with_keys(
        settings: &Settings,
        dependencies: &Dependencies,
        requests: &Arc<RequestMetrics>,
    ) -> Result<Self, BuildError> {
        let mut state = Self::of(settings, dependencies)?;
        locations::check(settings, &state.url)?;
        let encryption = match &dependencies.encryption {
            Some(encryption) => Some(encryption.clone()),
            None => kms::open(&settings.encryption).await?.map(|kms| {
                let (clock, ids) = (Arc::clone(&dependencies.clock), Arc::clone(&dependencies.ids));
                Encryption { kms, clock, ids, shared: None }
            }),
        };
        state.location.encryption = encryption.map(|encryption| {
            let kms = measured_kms(encryption.kms, Arc::clone(requests));
            Encryption { kms, ..encryption }
        });
        Ok(state)
    }

    /// Opens the state for a subcommand or a member of a cluster, without metrics.
    pub async fn offline(
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Self, BuildError> {
        Self::with_keys(settings, dependencies, &Arc::new(RequestMetrics::to_kms())).await
    }

    /// Unlocks the keys of the state for all catalogs that this process opens with this location.
    /// Returns `None` if the state is not encrypted.
    pub async fn unlock(
        &mut self,
        if_missing: IfMissing,
    ) -> Result<Option<SharedKeys>, BuildError> {
        let unlocked = Store::unlock(&self.location, if_missing).await;
        let keys = unlocked.map_err(|source| at_state(&self.url, source))?;
        if let Some(encryption) = &mut self.location.encryption {
            encryption.shared.clone_from(&keys);
        }
        Ok(keys)
    }

    /// Wraps the object stores so that the store's requests to them are measured.
    pub(super) fn measure(&mut self, requests: &Arc<RequestMetrics>) {
        let location = &mut self.location;
        location.object_store = measured(Arc::clone(&location.object_store), requests, "state");
        if let Some(log) = &mut location.log {
            log.object_store = measured(Arc::clone(&log.object_store), requests, "log");
        }
    }

    /// Wraps the object stores in a network so that slow puts of the store are sent again.
    pub(super) fn hedge(&mut self, puts: &Arc<HedgedPuts>) {
        let is_remote = |number: usize| self.parts.get(number).is_some_and(|it| it.1.is_remote);
        let (state, log) = (is_remote(0), is_remote(1));
        let location = &mut self.location;
        if state {
            location.object_store = hedged(Arc::clone(&location.object_store), puts, "state");
        }
        if let Some(own) = location.log.as_mut().filter(|_| log) {
            own.object_store = hedged(Arc::clone(&own.object_store), puts, "log");
        }
    }

    /// Waits until the buckets respond, checks that they are safe for a state, and logs the
    /// findings. Leaves no objects. If the state is in a local directory, only checks that the
    /// directory is writable.
    pub async fn probe(&self, dependencies: &Dependencies) -> Result<(), BuildError> {
        if let Some(directory) = self.location.directory.clone() {
            let id = dependencies.ids.random();
            let failed = |source| BuildError::Directory {
                directory: directory.display().to_string(),
                source,
            };
            let path = directory.clone();
            let probed = spawn_blocking(move || directory_probe::probe(&path, id)).await;
            return probed.map_err(std::io::Error::other).flatten().map_err(failed);
        }
        for (url, opened) in &self.parts {
            let found = self.wait_for(url, opened, dependencies).await?;
            tell(url, &found);
        }
        Ok(())
    }

    async fn wait_for(
        &self,
        url: &str,
        opened: &Opened,
        dependencies: &Dependencies,
    ) -> Result<Findings, BuildError> {
        let deadline = Instant::now() + self.patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        let mut probed = Vec::new();
        let mut last: Option<ProbeError> = None;
        loop {
            let id = dependencies.ids.random();
            let at_most = left().clamp(PAUSE_MIN, TRY_MAX);
            match probe_state(opened, id, dependencies.clock.as_ref(), at_most).await {
                Ok(found) => {
                    // If an earlier attempt timed out, its object may have been written only after
                    // the deletion of that object. So delete the objects of all earlier attempts
                    // again.
                    for id in probed {
                        probe::remove(opened, id).await;
                    }
                    return Ok(found);
                }
                Err(source) if !source.is_transient => {
                    return Err(BuildError::Unfit { url: url.to_owned(), source });
                }
                Err(source) if left().is_zero() => {
                    let seconds = self.patience.as_secs();
                    // If the time limit shortened the last attempt, the error of the attempt before
                    // it is more useful.
                    let source = last.filter(|_| at_most < TRY_MAX).unwrap_or(source);
                    return Err(BuildError::Unreachable { url: url.to_owned(), seconds, source });
                }
                Err(error) => {
                    let seconds_left = left().as_secs();
                    tracing::warn!(url, %error, seconds_left, "waiting for the object store");
                    probed.push(id);
                    last = Some(error);
                }
            }
            let _ = timeout(left(), backoff.wait()).await;
        }
    }

    /// Runs `opening`. Fails if an object store or a file of the store has not responded for
    /// `state.start_seconds_max`.
    pub(super) async fn while_responsive<T>(
        &self,
        opening: impl Future<Output = Result<T, BuildError>>,
    ) -> Result<T, BuildError> {
        tokio::select! {
            opened = opening => opened,
            silent = self.silence() => Err(silent),
        }
    }

    /// Waits until an object store has not responded for too long, has failed the same request
    /// repeatedly, or cannot be accessed because credentials are missing. Returns the error.
    async fn silence(&self) -> BuildError {
        let silent = |url: &str, last| {
            let (url, seconds) = (url.to_owned(), self.patience.as_secs());
            BuildError::Silent { url, seconds, last }
        };
        let mut answered = vec![Instant::now(); self.parts.len()];
        loop {
            sleep(CHECK_INTERVAL).await;
            for ((url, opened), answered) in self.parts.iter().zip(&mut answered) {
                let at_most = CHECK_TIMEOUT.min(self.patience);
                let Err(error) = ping::check(opened, at_most).await else {
                    *answered = Instant::now();
                    continue;
                };
                if !error.is_transient {
                    return BuildError::Credentials(error.reason);
                }
                if answered.elapsed() >= self.patience {
                    return silent(url, error.reason);
                }
                let seconds = answered.elapsed().as_secs();
                tracing::warn!(url, %error, seconds, "the object store has stopped responding");
            }
            if let Some(error) = self.location.storage.failing_for(self.patience) {
                return silent(&self.url, error);
            }
        }
    }
}

/// Returns the object stores of the configured state, with their URLs. Creates no data directory.
pub fn stores(
    settings: &Settings,
    dependencies: &Dependencies,
) -> Result<Vec<(String, Opened)>, BuildError> {
    check_there(settings)?;
    Ok(State::of(settings, dependencies)?.parts)
}

/// Opens the object store at a URL. Options that are missing in `options` are taken from the
/// environment.
pub fn store_at(
    url: &str,
    options: &BTreeMap<String, String>,
    settings: &Settings,
    dependencies: &Dependencies,
) -> Result<Opened, BuildError> {
    let keys = keys("--url", "--option", options);
    open(url.trim_end_matches('/'), options, settings, &dependencies.opener, &keys)
}

fn open_log(settings: &Settings, opener: &Opener) -> Result<Option<(String, Opened)>, BuildError> {
    match settings.state.wal_url.trim_end_matches('/') {
        "" if settings.state.wal_options.is_empty() => Ok(None),
        "" => Err(BuildError::Setting("state.wal_options: requires state.wal_url".to_owned())),
        url => {
            let options = &settings.state.wal_options;
            let keys = keys("state.wal_url", "state.wal_options", options);
            Ok(Some((url.to_owned(), open(url, options, settings, opener, &keys)?)))
        }
    }
}

fn keys<'a>(url: &str, options: &str, own: &'a BTreeMap<String, String>) -> Keys<'a> {
    Keys { url: url.to_owned(), options: options.to_owned(), own }
}

fn tell(url: &str, found: &Findings) {
    let Findings { put, head, clock_ahead_ms } = *found;
    let (put_ms, head_ms) = (milliseconds(put), milliseconds(head));
    tracing::info!(
        url,
        put_ms,
        head_ms,
        clock_ahead_ms,
        "the object store supports everything that the state requires"
    );
    if clock_ahead_ms.unsigned_abs() >= CLOCK_SKEW_WARNED_MS {
        tracing::warn!(
            url,
            clock_ahead_ms,
            "the clocks of the object store and of this machine differ: synchronize this machine's clock. Garbage collection \
             compares the two clocks, and S3 rejects every request if they differ by 15 minutes"
        );
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}
