//! [`CatalogHost`]: opens and closes the catalog in the process of a member.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::catalog_services::CatalogServices;
use super::followed_writer::WriterReport;
use super::node::Node;
use crate::api::cluster::ClusterControl;
use crate::api::observe::Observer;
use crate::app::{App, idle, webhooks};
use slateberg_base::error_chain::chain;
use slateberg_config::Settings;
use slateberg_runtime::background::Background;
use slateberg_runtime::dependencies::{ClusterPart, Dependencies};
use slateberg_runtime::error::BuildError;
use slateberg_store::open::StoreLocation;
use slateberg_store::{self as store, Store};
use slateberg_telemetry::otlp::Traces;

/// Maximum time until the requests to a catalog on a replica have ended.
const REQUESTS_MAX: Duration = Duration::from_secs(60);

/// Prints the banner of a catalog that begins to serve.
pub type PrintBanner = Arc<dyn Fn(&App) + Send + Sync>;

/// Maximum time for closing the catalog of a writer, in durations of its lease. Meanwhile, the cluster has
/// no writer. After a crash, it has none for about one lease.
const LEASES_IN_CLOSE: u32 = 2;

/// The parts from which a member opens the catalog.
pub(super) struct CatalogHost {
    /// The settings.
    pub(super) settings: Settings,
    /// The replaceable parts.
    pub(super) dependencies: Dependencies,
    /// The location of the store.
    pub(super) location: StoreLocation,
    /// The state of the election.
    pub(super) node: Arc<Node>,
    /// The cluster, for requests of the management API.
    pub(super) control: Arc<dyn ClusterControl>,
    /// Records telemetry of requests.
    pub(super) observer: Arc<Observer>,
    /// The export of traces, if it is on.
    pub(super) traces: Option<Arc<Traces>>,
    /// Prints the banner.
    pub(super) print_banner: PrintBanner,
}

/// The parts from which a standby opens the catalog on a replica.
pub(super) struct ReplicaHost {
    /// The settings.
    pub(super) settings: Settings,
    /// The replaceable parts.
    pub(super) dependencies: Dependencies,
    /// The location of the writer's store.
    pub(super) location: StoreLocation,
    /// The cluster, for requests of the management API.
    pub(super) control: Arc<dyn ClusterControl>,
    /// Records telemetry of requests.
    pub(super) observer: Arc<Observer>,
}

/// The catalog on a replica, with its background tasks.
pub(super) struct OpenReplica {
    /// The routes.
    pub(super) services: Arc<CatalogServices>,
    background: Background,
}

/// An open catalog with its background tasks.
pub(super) struct OpenCatalog {
    app: App,
    background: Mutex<Option<Background>>,
    services: Arc<CatalogServices>,
    epoch: u64,
    print_banner: PrintBanner,
    close_max: Duration,
}

impl CatalogHost {
    /// Returns the epoch of the last writer of the store.
    pub(super) fn writer_epoch(
        &self,
    ) -> impl Future<Output = Result<u64, store::Error>> + Send + 'static {
        let location = self.location.clone();
        async move { Store::writer_epoch(&location).await }
    }

    /// Opens the catalog. With an epoch, fails if another process has opened the store since this
    /// epoch was read. Opening continues in a task of its own, because it computes for a long time
    /// while the lease has to be renewed. The handle aborts the opening, which then returns `None`.
    /// Only a process that stops may do so, because the aborted store is not closed in order.
    pub(super) fn open(
        &self,
        previous_epoch: Option<u64>,
    ) -> (AbortHandle, impl Future<Output = Result<Option<OpenCatalog>, BuildError>> + Send + use<>)
    {
        let (settings, location) = (self.settings.clone(), self.location.clone());
        let part = ClusterPart::Writer { previous_epoch };
        let dependencies = Dependencies { part, ..self.dependencies.share() };
        let (node, traces) = (Arc::clone(&self.node), self.traces.clone());
        let observer = Arc::clone(&self.observer);
        let (print_banner, control) = (Arc::clone(&self.print_banner), Arc::clone(&self.control));
        let opening = tokio::spawn(async move {
            let cluster = settings.cluster.clone();
            let mut app = App::observed(settings, dependencies, observer).await?;
            app.cluster = Some(control);
            let registry = &app.runtime.measures.registry;
            registry.register("cluster", move |into| node.collect(into));
            if let Some(traces) = &traces {
                traces.register(registry);
            }
            let epoch = match previous_epoch {
                Some(epoch) => epoch + 1,
                None => Store::writer_epoch(&location).await.map_err(|source| {
                    BuildError::Store { url: app.runtime.state_url.clone(), source }
                })?,
            };
            let services = CatalogServices::new(&app);
            let mut background = Background::start(&mut app.runtime);
            background.add(webhooks::spawn(&app, background.stopping()));
            background.add(idle::spawn(&app, background.stopping()));
            let background = Mutex::new(Some(background));
            let close_max = LEASES_IN_CLOSE * cluster.lease(&app.runtime.state_url);
            let services = Arc::new(services);
            Ok(OpenCatalog { app, background, services, epoch, print_banner, close_max })
        });
        let abort = opening.abort_handle();
        let opened = async move {
            match opening.await {
                Ok(opened) => opened.map(Some),
                Err(error) if error.is_cancelled() => Ok(None),
                Err(panic) => Err(BuildError::Failed(panic.to_string())),
            }
        };
        (abort, opened)
    }
}

impl ReplicaHost {
    /// Opens the catalog on a replica, without anything that changes it.
    pub(super) async fn open(&self, replica: Store) -> Result<OpenReplica, BuildError> {
        let part = ClusterPart::Standby(replica);
        let dependencies = Dependencies { part, ..self.dependencies.share() };
        let observer = Arc::clone(&self.observer);
        let mut app = App::observed(self.settings.clone(), dependencies, observer).await?;
        app.cluster = Some(Arc::clone(&self.control));
        let background = Background::start_for_replica(&app.runtime);
        Ok(OpenReplica { services: Arc::new(CatalogServices::new(&app)), background })
    }
}

impl OpenReplica {
    /// Ends the background tasks, after the requests in progress.
    pub(super) async fn close(mut self) {
        if timeout(REQUESTS_MAX, self.services.completed()).await.is_err() {
            tracing::debug!("some reads did not end before their replica");
        }
        self.background.stop();
        self.background.ended().await;
    }
}

impl OpenCatalog {
    /// The id of the catalog.
    pub(super) fn id(&self) -> Uuid {
        self.app.runtime.catalog_id
    }

    /// The writer epoch of the store.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The newest changes that are durable, and the policies in force.
    pub(super) fn report(&self) -> WriterReport {
        let catalog = &self.app.runtime.catalog;
        let (replicas, policies) = (catalog.replicas(), catalog.policies());
        WriterReport { sequence: replicas.durable_sequence(), policy_hash: policies.policy_hash() }
    }

    /// The routes.
    pub(super) fn services(&self) -> Arc<CatalogServices> {
        Arc::clone(&self.services)
    }

    /// Prints the banner.
    pub(super) fn print_banner(&self) {
        (self.print_banner)(&self.app);
    }

    /// Ends watches, and asks clients to close their connections.
    pub(super) fn begin_shutdown(&self) {
        self.app.shutdown.begin();
    }

    /// Writes the memtable to the bucket, so that the next writer has little to replay.
    pub(super) async fn flush(&self) {
        if let Err(error) = self.app.runtime.catalog.flush().await {
            let error = chain(&error);
            tracing::warn!(error, "cannot flush the store before the transfer of the writer");
        }
    }

    /// Waits until the store closes, and returns the reason.
    pub(super) async fn store_closed(&self) -> store::Error {
        self.app.runtime.catalog.store_closed().await
    }

    /// Stops the background tasks, and closes the store. Gives up after some time. No change is lost:
    /// acknowledged changes are in the log, which the next writer reads, and it fences this store.
    pub(super) async fn close(&self) {
        if timeout(self.close_max, self.close_completely()).await.is_err() {
            let seconds = self.close_max.as_secs();
            tracing::warn!(seconds, "the store did not close in time");
        }
    }

    async fn close_completely(&self) {
        let catalog = &self.app.runtime.catalog;
        let background = self.background.lock().await.take();
        self.app.shutdown.begin();
        // A background task may be waiting for free disk space. Do not wait for it.
        catalog.give_up_on_space();
        if let Some(mut background) = background {
            background.stop();
            background.ended().await;
            background.finish().await;
        }
        match catalog.close().await {
            Ok(()) | Err(store::Error::Fenced | store::Error::Closed) => {}
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    error,
                    "the store could not be closed cleanly: acknowledged changes are in its log"
                );
            }
        }
    }
}
