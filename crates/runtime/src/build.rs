//! From settings to an open catalog.

use std::sync::Arc;
use std::time::Duration;

use super::issuers;
use super::lock::{DataDirLock, LockError};
use super::measure::Measures;
pub use super::offline::OfflineCatalog;
use super::policies;
use super::start_log::logged;
use super::state::{STATE_DIR, State};
use super::warehouses::{self, Opening};
use slateberg_authn::issuers::Issuers;
use slateberg_authn::{self as authn, Authenticator};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_base::progress::Progress;
use slateberg_base::secret::Secret;
use slateberg_base::setting::InvalidSetting;
use slateberg_catalog::FinishedPublications;
use slateberg_catalog::policies::Sources;
use slateberg_catalog::{self as catalog, Catalog, Parts};
use slateberg_config::Settings;
use slateberg_kms as kms;
use slateberg_objects::open::{Opener, opener};
use slateberg_objects::probe::ProbeError;
use slateberg_store::open::Place;
use slateberg_store::records::StoreFormat;
use slateberg_store::{self as store, Store};
use slateberg_telemetry::audit::{AuditError, AuditLog};
use slateberg_telemetry::otlp::{Exporter, InvalidOtlp};
use slateberg_telemetry::traces::Tracer;

/// Why a catalog cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is wrong in itself.
    #[error("{0}")]
    Setting(String),
    /// The policies are not valid, or cannot be read.
    #[error("authz: {0}")]
    Policies(#[from] policies::Error),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// What was made of policies at run time cannot be read.
    #[error("cannot read the policies in the store: {0}")]
    PolicyBook(store::Error),
    /// Settings are wrong in themselves.
    #[error("{}", lines(.0))]
    Invalid(Vec<InvalidSetting>),
    /// The data directory is not ours.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The object store of the state did not answer in time.
    #[error("no answer from the object store at {url} within {seconds} s; last error: {source}")]
    Unreachable {
        /// Where the state is, or its log.
        url: String,
        /// How long it was waited for.
        seconds: u64,
        /// What went wrong at last.
        source: ProbeError,
    },
    /// The storage of the state did not answer while the catalog was opened, or one of its files did not.
    #[error("no answer from the storage at {url} within {seconds} s; last error: {last}")]
    Silent {
        /// Where the state is, or its log.
        url: String,
        /// How long it was waited for.
        seconds: u64,
        /// The last error.
        last: String,
    },
    /// The directory of the state cannot be written.
    #[error(
        "cannot write to the directory {directory} of the catalog's state: {source}. A start needs permission \
         and a little space there"
    )]
    Directory {
        /// The directory.
        directory: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The object store cannot be asked.
    #[error("cannot open the catalog's state: {0}")]
    Credentials(String),
    /// The object store is none that a state may be kept in, or does not let us.
    #[error("the catalog's state cannot be kept at {url}: {source}")]
    Unfit {
        /// Where the state is, or its log.
        url: String,
        /// What is wrong.
        source: ProbeError,
    },
    /// What is said of encryption is wrong.
    #[error(transparent)]
    Encryption(#[from] kms::Error),
    /// The store cannot be opened.
    #[error("cannot open the store at {url}: {source}")]
    Store {
        /// Where it is.
        url: String,
        /// What is wrong.
        source: store::Error,
    },
    /// The records of warehouses cannot be read or written.
    #[error("cannot bring the warehouses and the store together: {0}")]
    Warehouses(store::Error),
    /// What an earlier process left cannot be finished.
    #[error("cannot complete publications of an earlier run: {0}")]
    Recover(catalog::Error),
    /// The credentials cannot be loaded.
    #[error("cannot load the API keys: {0}")]
    Authn(#[from] authn::Error),
    /// What is said of OpenTelemetry is wrong.
    #[error(transparent)]
    Otlp(#[from] InvalidOtlp),
}

fn lines(problems: &[InvalidSetting]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

impl BuildError {
    /// Whether the settings themselves are to blame: another try will not do better. Files that they name
    /// may be others by then, or the disk that they are on.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Invalid(_) | Self::Otlp(_) => true,
            Self::Encryption(error) => matches!(error, kms::Error::Setting(_)),
            _ => false,
        }
    }
}

/// An open catalog with everything that it needs besides a way in: authentication, telemetry, settings.
pub struct Runtime {
    /// The use cases.
    pub catalog: Catalog,
    /// Who may come in.
    pub authn: Authenticator,
    /// The admin key that this start has minted, if it has. Its text is known this once.
    pub minted_key: Option<Secret>,
    /// What issuers are asked with, if there are any to ask: to make one reads the system's certificates.
    pub(super) issuer_client: Option<reqwest::Client>,
    /// What it was built from.
    pub settings: Arc<Settings>,
    /// Where the state is.
    pub state_url: String,
    /// What is measured.
    pub measures: Measures,
    /// Where traces and metrics go.
    pub(super) exporter: Option<Exporter>,
    /// What makes the spans of requests, if traces are sent.
    pub tracer: Option<Arc<Tracer>>,
    _lock: Option<DataDirLock>,
}

/// The parts that a test may replace.
pub struct Seams {
    /// From URLs to object stores.
    pub opener: Opener,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New identifiers.
    pub ids: Arc<dyn Ids>,
}

impl Default for Seams {
    fn default() -> Self {
        Self { opener: opener(), clock: Arc::new(SystemClock), ids: Arc::new(RandomIds) }
    }
}

impl Runtime {
    /// Opens the catalog, and finishes what an earlier process left. An object store that does not answer is
    /// waited for as long as `state.start_seconds_max` says.
    pub async fn open(settings: Settings, seams: Seams) -> Result<Self, BuildError> {
        logged(|progress| Self::start(settings, seams, progress)).await
    }

    async fn start(
        settings: Settings,
        seams: Seams,
        progress: Progress,
    ) -> Result<Self, BuildError> {
        let contradictions = settings.contradictions();
        if !contradictions.is_empty() {
            return Err(BuildError::Invalid(contradictions));
        }
        settings.check_memory().map_err(BuildError::Setting)?;
        if let Some(warning) = settings.memory_warning() {
            tracing::warn!(warning, "the settings permit more memory than the budget");
        }
        let settings = settings.with_memory_shares();
        let files = Files {
            issuers: read_issuers(&settings)?,
            policies: policies::from_files(&settings.authz)?,
            bootstrap_key: settings.authn.bootstrap_key().map_err(BuildError::Setting)?,
            audit: Arc::new(AuditLog::open(&settings.audit)?),
            exporter: Exporter::new(&settings.telemetry.otlp, &seams.clock)?,
        };
        let measures = Measures::default();
        let lock = lock_data_dir(&settings)?;
        let phase = progress.phase("connecting to the storage of the state", None);
        let mut state = State::with_keys(&settings, &seams, &measures.kms).await?;
        state.measure(&measures.object_stores);
        check_object_cache(&settings, &state.place)?;
        // In boxes: together they would take much of a thread's stack.
        Box::pin(state.tried(&seams)).await?;
        drop(phase);
        let _phase = progress.phase("opening warehouses and policies", None);
        let opening = Self::open_on(settings, seams, files, lock, &state, measures, &progress);
        let opening = Box::pin(opening);
        let app = Box::pin(state.within_reach(opening)).await?;
        state.place.storage.wait_for_space();
        app.register();
        Ok(app)
    }

    /// Opens it on a state that is there.
    async fn open_on(
        settings: Settings,
        seams: Seams,
        files: Files,
        lock: Option<DataDirLock>,
        state: &State,
        measures: Measures,
        progress: &Progress,
    ) -> Result<Self, BuildError> {
        let Files { issuers, policies, bootstrap_key, audit, exporter } = files;
        let (opener, state_url) = (measures.warehouses(&seams.opener), state.url.clone());
        let issuer_client = client_for(&issuers)?;
        let (permit, now_ms) = (Permit::for_task(Task::Open), seams.clock.now_ms());
        let (store, format) = open_store(state, &settings, &seams, &permit, progress).await?;
        let store = store.audited(audit);
        let stores = warehouses::stores(&settings, &opener, &state_url, &format.clone_of)?;
        let opening = Opening {
            settings: &settings,
            opener: &opener,
            ids: seams.ids.as_ref(),
            permit: &permit,
            now_ms,
            clone_of: format.clone_of.as_ref(),
        };
        let served = warehouses::open_all(&opening, &store, &stores).await?;
        let (policy_sources, authority) =
            policies::with_book(&store, policies, settings.authz.decisions_max).await?;
        let authn_store = store.clone();
        let (clock, ids) = (Arc::clone(&seams.clock), Arc::clone(&seams.ids));
        let catalog = Catalog::new(Parts {
            store,
            warehouses: served,
            stores,
            authority: Arc::clone(&authority),
            policy_sources,
            policy_limits: settings.authz.limits(),
            clone_of: format.clone_of,
            timeline: format.timeline,
            settings: settings.catalog.clone(),
            clock: seams.clock,
            ids: seams.ids,
        });
        finish_publications(&catalog, settings.state.start_patience(), progress).await?;
        // Last of all that can fail: a key that is minted is one that its owner gets to see.
        let (authn, minted_key) = Authenticator::open(authn::authenticator::Parts {
            store: authn_store,
            authority,
            catalog_id: format.catalog_id,
            settings: settings.authn.clone(),
            issuers,
            bootstrap_key,
            clock,
            ids,
        })
        .await?;
        Ok(Self {
            catalog,
            authn,
            minted_key,
            issuer_client,
            settings: Arc::new(settings),
            state_url,
            measures,
            tracer: exporter.tracer().map(Arc::clone),
            exporter: Some(exporter),
            _lock: lock,
        })
    }
}

/// Opens the store, and brings it into this binary's format.
async fn open_store(
    state: &State,
    settings: &Settings,
    seams: &Seams,
    permit: &Permit<Maintain>,
    progress: &Progress,
) -> Result<(Store, StoreFormat), BuildError> {
    let _phase = progress.phase("opening the store", None);
    let failed = |source| at_state(&state.url, source);
    let store = Store::open(&state.place, settings.store.clone()).await.map_err(failed)?;
    catalog::ensure_whereabouts(&store, permit).await.map_err(BuildError::Recover)?;
    let (id, now_ms) = (seams.ids.random(), seams.clock.now_ms());
    let format = store.ensure_format(permit, id, now_ms).await.map_err(failed)?;
    Ok((store, format))
}

/// Finishes what an earlier process has begun to publish.
async fn finish_publications(
    catalog: &Catalog,
    patience: Duration,
    progress: &Progress,
) -> Result<(), BuildError> {
    let outcome =
        catalog.finish_publications(patience, progress).await.map_err(BuildError::Recover)?;
    let FinishedPublications { finished, replaced, unfinished } = outcome;
    if finished > 0 {
        tracing::info!(publications = finished, "completed publications of an earlier run");
    }
    if !replaced.is_empty() {
        let (files, locations) = (replaced.len(), replaced.join(", "));
        tracing::warn!(
            files,
            locations,
            "replaced metadata files that differed from their records"
        );
    }
    if !unfinished.is_empty() {
        let (publications, locations) = (unfinished.len(), unfinished.join(", "));
        tracing::error!(
            publications,
            locations,
            "could not complete publications of an earlier run"
        );
    }
    Ok(())
}

/// What files and settings say, read before anything is opened.
struct Files {
    issuers: Issuers,
    policies: Sources,
    /// The admin key that a first start is to have, in the place of one that is minted.
    bootstrap_key: Option<Secret>,
    audit: Arc<AuditLog>,
    exporter: Exporter,
}

/// Refuses copies on the local disk of what is on the local disk.
pub fn check_object_cache(settings: &Settings, place: &Place) -> Result<(), BuildError> {
    match place.directory {
        Some(_) if settings.store.has_object_cache() => Err(BuildError::Setting(
            "store.object_cache_dir: the state is in a local directory already; leave this out"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The issuers of the settings, with the keys that are in files.
pub(super) fn read_issuers(settings: &Settings) -> Result<Issuers, BuildError> {
    let issuers = Issuers::new(&settings.authn.issuers);
    let issuers = issuers.map_err(|invalid| BuildError::Invalid(vec![invalid]))?;
    issuers.all().try_for_each(|issuer| issuers::read_file(issuer)).map_err(BuildError::Setting)?;
    Ok(issuers)
}

fn client_for(issuers: &Issuers) -> Result<Option<reqwest::Client>, BuildError> {
    let wrong = |error| BuildError::Setting(format!("authn.issuers: {error}"));
    let any = issuers.all().any(|issuer| issuer.is_fetched());
    any.then(issuers::client).transpose().map_err(wrong)
}

/// Why a store cannot be opened that is at a URL.
pub(super) fn at_state(url: &str, source: store::Error) -> BuildError {
    BuildError::Store { url: url.to_owned(), source }
}

/// Rejects a data directory without a catalog, so that a misspelled path creates no new one.
pub(super) fn check_there(settings: &Settings) -> Result<(), BuildError> {
    if uses_data_dir(settings) && !settings.data_dir.join(STATE_DIR).is_dir() {
        let directory = settings.data_dir.display();
        return Err(BuildError::Setting(format!(
            "no catalog in {directory}: set --data-dir, or state.url in the settings"
        )));
    }
    Ok(())
}

/// Whether anything is kept in the data directory.
pub(super) fn uses_data_dir(settings: &Settings) -> bool {
    settings.state.url.is_empty()
}

pub(super) fn lock_data_dir(settings: &Settings) -> Result<Option<DataDirLock>, BuildError> {
    if !uses_data_dir(settings) {
        return Ok(None);
    }
    std::fs::create_dir_all(&settings.data_dir).map_err(|error| {
        BuildError::Setting(format!("data_dir: {}: {error}", settings.data_dir.display()))
    })?;
    Ok(Some(DataDirLock::take(&settings.data_dir)?))
}
