//! Opens a catalog from its settings.

use std::sync::Arc;

use uuid::Uuid;

use super::cluster::reject_cluster;
use super::data_dir::lock_data_dir;
use super::dependencies::{ClusterPart, Dependencies};
use super::error::{BuildError, at_state};
use super::issuers;
use super::lock::DataDirLock;
use super::metrics::CatalogMetrics;
use super::policies::{self, FilePolicies};
use super::start_log::logged;
use super::state::State;
use super::warehouses::{self, WarehouseInputs};
use slateberg_authn::issuers::Issuers;
use slateberg_authn::{self as authn, Authenticator};
use slateberg_authz::action::Maintain;
use slateberg_authz::authority::Authority;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::Progress;
use slateberg_base::secret::Secret;
use slateberg_catalog::FinishedPublications;
use slateberg_catalog::policies::Sources;
use slateberg_catalog::webhooks::target::TargetRules;
use slateberg_catalog::{self as catalog, Catalog, Parts};
use slateberg_config::Settings;
use slateberg_store::Store;
use slateberg_store::open::StoreLocation;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::records::StoreFormat;
use slateberg_telemetry::audit::AuditLog;
use slateberg_telemetry::otlp::{Exporter, Traces};

/// An open catalog with authentication, telemetry and settings. It has no HTTP server.
pub struct Runtime {
    /// The id of the catalog.
    pub catalog_id: Uuid,
    /// The catalog's operations.
    pub catalog: Catalog,
    /// Authenticates requests.
    pub authn: Authenticator,
    /// The admin key that this start created, if any. The secret of the key is available only here.
    pub minted_key: Option<Secret>,
    /// The HTTP client for token issuers. `None` if no keys are fetched: a client is created only
    /// if it is needed, because its creation reads the system's certificates.
    pub(super) issuer_client: Option<reqwest::Client>,
    /// The settings of the catalog.
    pub settings: Arc<Settings>,
    /// The URL of the state.
    pub state_url: String,
    /// Metrics.
    pub measures: CatalogMetrics,
    /// The exporter of traces and metrics.
    pub(super) exporter: Option<Exporter>,
    _lock: Option<DataDirLock>,
}

impl Runtime {
    /// Opens the catalog, and completes the publications of an earlier process: it writes the
    /// metadata files that are still missing. Waits for an unresponsive object store for up to
    /// `state.start_seconds_max`.
    pub async fn open(settings: Settings, dependencies: Dependencies) -> Result<Self, BuildError> {
        logged(|progress| Self::start(settings, dependencies, progress)).await
    }

    /// Registers the metrics of these traces, and flushes the traces at shutdown.
    pub fn take_traces(&mut self, traces: Traces) {
        if let Some(exporter) = &mut self.exporter {
            exporter.take_traces(traces, &self.measures.registry);
        }
    }

    async fn start(
        settings: Settings,
        mut dependencies: Dependencies,
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
        let files = StartFiles {
            issuers: match dependencies.issuers.take() {
                Some(issuers) => issuers,
                None => read_issuers(&settings)?,
            },
            policies: match dependencies.policies.take() {
                Some(policies) => policies,
                None => FilePolicies::load(&settings.authz)?,
            },
            bootstrap_key: settings.authn.bootstrap_key().map_err(BuildError::Setting)?,
            audit: Arc::new(AuditLog::open(&settings.audit)?),
            exporter: Exporter::new(&settings.telemetry.otlp, &dependencies.clock)?,
        };
        let measures = CatalogMetrics {
            connections: Arc::clone(&dependencies.connections),
            ..CatalogMetrics::default()
        };
        let lock = lock_data_dir(&settings)?;
        let phase = progress.phase("connecting to the storage of the state", None);
        let mut state = State::with_keys(&settings, &dependencies, &measures.kms).await?;
        state.measure(&measures.object_stores);
        state.hedge(&measures.hedged_puts);
        check_object_cache(&settings, &state.location)?;
        // The futures are boxed, because together they would take much of a thread's stack.
        if let ClusterPart::Alone = dependencies.part {
            Box::pin(state.probe(&dependencies)).await?;
            reject_cluster(&state).await?;
        }
        drop(phase);
        let _phase = progress.phase("opening warehouses and policies", None);
        let opening =
            Self::open_on(settings, dependencies, files, lock, &state, measures, &progress);
        let opening = Box::pin(opening);
        let app = Box::pin(state.while_responsive(opening)).await?;
        state.location.storage.wait_for_space();
        app.register();
        Ok(app)
    }

    /// Opens the catalog on a state whose storage has been probed.
    async fn open_on(
        settings: Settings,
        dependencies: Dependencies,
        files: StartFiles,
        lock: Option<DataDirLock>,
        state: &State,
        measures: CatalogMetrics,
        progress: &Progress,
    ) -> Result<Self, BuildError> {
        let StartFiles { issuers, policies, bootstrap_key, audit, exporter } = files;
        let (opener, state_url) = (measures.warehouses(&dependencies.opener), state.url.clone());
        let (issuer_client, permit) = (client_for(&issuers)?, Permit::for_task(Task::Open));
        let opened = open_store(state, &settings, &dependencies, &permit, progress).await?;
        let (store, format) = (opened.0.with_audit_log(audit), opened.1);
        let stores = warehouses::stores(&settings, &opener, &state_url, &format.clone_of)?;
        let opening = WarehouseInputs {
            settings: &settings,
            opener: &opener,
            ids: dependencies.ids.as_ref(),
            permit: &permit,
            now_ms: dependencies.clock.now_ms(),
            clone_of: format.clone_of.as_ref(),
        };
        let served = warehouses::open_all(&opening, &store, &stores).await?;
        let (policy_sources, authority) =
            with_stored_policies(&store, policies, &settings.authz).await?;
        let (authn_store, catalog_id) = (store.clone(), format.catalog_id);
        let catalog = Catalog::new(Parts {
            store,
            warehouses: served,
            stores,
            authority: Arc::clone(&authority),
            policy_sources,
            policy_limits: settings.authz.limits(),
            clone_of: format.clone_of,
            catalog_id,
            timeline: format.timeline,
            planning: dependencies.planning(&settings.catalog),
            settings: settings.catalog.clone(),
            webhooks: webhook_rules(&settings)?,
            clock: Arc::clone(&dependencies.clock),
            ids: Arc::clone(&dependencies.ids),
        });
        finish_publications(&catalog, &settings, &dependencies, progress).await?;
        // This must be the last step that can fail. If a later step failed, the operator would
        // never see an admin key that this step created.
        let (authn, minted_key) = Authenticator::open(authn::authenticator::Parts {
            store: authn_store,
            authority,
            catalog_id,
            settings: settings.authn.clone(),
            issuers,
            bootstrap_key,
            clock: dependencies.clock,
            ids: dependencies.ids,
        })
        .await?;
        Ok(Self {
            catalog_id,
            catalog,
            authn,
            minted_key,
            issuer_client,
            settings: Arc::new(settings),
            state_url,
            measures,
            exporter: Some(exporter),
            _lock: lock,
        })
    }

    /// Registers all metric sources.
    fn register(&self) {
        self.measures.register();
        let registry = &self.measures.registry;
        let catalog = self.catalog.clone();
        registry.register("catalog", move |into| catalog.collect(into));
        if let Some(exporter) = &self.exporter {
            exporter.register(registry);
        }
    }
}

/// Opens the store, and upgrades it to this binary's format.
async fn open_store(
    state: &State,
    settings: &Settings,
    dependencies: &Dependencies,
    permit: &Permit<Maintain>,
    progress: &Progress,
) -> Result<(Store, StoreFormat), BuildError> {
    let _phase = progress.phase("opening the store", None);
    let failed = |source| at_state(&state.url, source);
    let (location, store_settings) = (&state.location, settings.store.clone());
    let opened = match &dependencies.part {
        ClusterPart::Alone => Store::open(location, store_settings).await,
        ClusterPart::Writer { previous_epoch } => {
            Store::take_over(location, store_settings, *previous_epoch).await
        }
        ClusterPart::Standby(replica) => Ok(replica.clone()),
    };
    let store = opened.map_err(failed)?;
    catalog::ensure_location_index(&store, permit).await.map_err(BuildError::Recover)?;
    let (id, now_ms) = (dependencies.ids.random(), dependencies.clock.now_ms());
    let format = store.ensure_format(permit, id, now_ms).await.map_err(failed)?;
    Ok((store, format))
}

/// Builds the policies from the files and the policies created at run time.
async fn with_stored_policies(
    store: &Store,
    policies: FilePolicies,
    settings: &slateberg_authz::settings::Settings,
) -> Result<(Sources, Arc<Authority>), BuildError> {
    let stored = PolicySnapshot::read(&store.durable()).await;
    let stored = Arc::new(stored.map_err(BuildError::PolicySnapshot)?);
    let sources = policies.sources(settings);
    if !sources.stored_in_force {
        let (policies, grants) = (stored.policies.len(), stored.grants.len());
        tracing::warn!(
            policies,
            grants,
            "authz.stored_policies is false: stored policies are not in force"
        );
    }
    let sources = Sources { book: stored, ..sources };
    let set = if sources.are_only_files() {
        policies.set
    } else {
        let schema = Arc::clone(policies.set.schema());
        sources.build(schema).map_err(policies::Error::Invalid)?
    };
    Ok((sources, Arc::new(Authority::new(set, settings.decisions_max))))
}

/// Completes the publications of an earlier process.
async fn finish_publications(
    catalog: &Catalog,
    settings: &Settings,
    dependencies: &Dependencies,
    progress: &Progress,
) -> Result<(), BuildError> {
    // A replica writes no files: the writer does.
    if let ClusterPart::Standby(_) = dependencies.part {
        return Ok(());
    }
    let patience = settings.state.start_timeout();
    let outcome =
        catalog.finish_publications(patience, progress).await.map_err(BuildError::Recover)?;
    let FinishedPublications { finished, replaced, unfinished } = outcome;
    if finished > 0 {
        tracing::info!(
            publications = finished,
            "wrote metadata files that an earlier run had not written yet"
        );
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
            "could not write some metadata files of an earlier run: their tables are served once the files are written"
        );
    }
    Ok(())
}

/// Inputs from files and settings, read before the store is opened.
struct StartFiles {
    issuers: Issuers,
    policies: FilePolicies,
    /// The configured admin key for the first start, used instead of a generated one.
    bootstrap_key: Option<Secret>,
    audit: Arc<AuditLog>,
    exporter: Exporter,
}

/// Rejects an object cache on the local disk if the state is on the local disk, too.
pub fn check_object_cache(settings: &Settings, location: &StoreLocation) -> Result<(), BuildError> {
    match location.directory {
        Some(_) if settings.store.has_object_cache() => Err(BuildError::Setting(
            "store.object_cache_dir: a state in a local directory needs no object cache: remove this setting"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

fn webhook_rules(settings: &Settings) -> Result<TargetRules, BuildError> {
    TargetRules::new(&settings.webhooks).map_err(|invalid| BuildError::Invalid(vec![invalid]))
}

/// Returns the configured issuers. Loads the keys of issuers that have a key file.
pub fn read_issuers(settings: &Settings) -> Result<Issuers, BuildError> {
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
