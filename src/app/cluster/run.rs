//! Runs a member of a cluster until a stop signal arrives.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::catalog_host::{CatalogHost, PrintBanner};
use super::driver::{DrainState, Driver};
use super::forward::Forwarder;
use super::identity::{IdentityError, MemberIdentity};
use super::member_port::MemberPort;
use super::member_tls::MemberHandshakes;
use super::node::{KnownWriter, Node, PortKind};
use super::ports::ClusterPort;
use crate::app::connections::{self, Limits};
use crate::app::run::{BoundPorts, hint, listen};
use crate::app::tls::handshake::Handshakes;
use slateberg_authn::client_certificates::ClientCertificates;
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::host::host_name;
use slateberg_base::version::VERSION;
use slateberg_cluster::{Election, ElectionConfig, Peer};
use slateberg_config::Settings;
use slateberg_runtime::cluster::{MemberRecord, Members, WriterRegister};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::state::State;
use slateberg_telemetry::otlp::Traces;
use slateberg_telemetry::process;
use slateberg_telemetry::registry::Registry;

/// Parts of the duration of a lease that one request may take.
const REQUESTS_IN_LEASE: u32 = 4;

/// A member of a cluster cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The server cannot listen on the address for other members.
    #[error("cannot listen on {address} for other members of the cluster: {source}{}", hint(.source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The identity of this member cannot be created.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The state is unsuitable or unavailable.
    #[error(transparent)]
    State(#[from] BuildError),
    /// The bucket does not support conditional replacement.
    #[error(
        "cluster.enabled: the object store at {0} cannot replace an object on the condition that it is unchanged \
         (If-Match), which a cluster requires"
    )]
    Unconditional(String),
    /// The record of this member cannot be written.
    #[error("cannot write the record of this member to the bucket of the state: {0}")]
    Announce(Cause),
}

/// A member whose ports are bound.
pub struct Member {
    /// The settings, with shares of memory.
    pub settings: Settings,
    /// The replaceable parts.
    pub dependencies: Dependencies,
    /// The ports for clients and operators.
    pub bound: BoundPorts,
    /// The export of traces, if it is on.
    pub traces: Option<Traces>,
    /// Prints the banner each time that this process becomes the writer.
    pub print_banner: PrintBanner,
    /// Reports that this process is a standby and knows the writer.
    pub print_standby: Box<dyn FnOnce(&str) + Send>,
}

/// Runs a member until `stop` completes, and then until it has completed the requests in progress
/// and released its lease.
pub async fn run(member: Member, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
    let Member { settings, dependencies, bound, traces, print_banner, print_standby } = member;
    let state = State::of(&settings, &dependencies)?;
    state.probe(&dependencies).await?;
    if !state.opened().conditional_update {
        return Err(ClusterError::Unconditional(state.url));
    }
    let lease = settings.cluster.lease(&state.url);
    let request_max = lease / REQUESTS_IN_LEASE;
    let identity = MemberIdentity::generate()?;
    let address = settings.cluster.listen;
    let listener = listen(address).await;
    let listener = listener.map_err(|source| ClusterError::Listen { address, source })?;
    let record = record(&settings, &dependencies, &identity, &listener)?;
    let members = Members::open(state.opened(), request_max);
    members.announce(&record).await.map_err(ClusterError::Announce)?;
    if let Err(error) = members.remove_expired(dependencies.clock.now_ms()).await {
        let error = chain(&error);
        tracing::warn!(error, "cannot remove the records of earlier members of the cluster");
    }
    let config = ElectionConfig {
        lease_ms: lease.as_millis() as u64,
        renew_ms: settings.cluster.renewal(lease).as_millis() as u64,
        eligible: settings.cluster.eligible,
        member: record.member.clone(),
        peer: record.peer.clone(),
    };
    let node = Node::new(Arc::clone(&dependencies.clock));
    let (drain, traces) = (watch::Sender::new(DrainState::Open), traces.map(Arc::new));
    let host = CatalogHost {
        settings: settings.clone(),
        dependencies: dependencies.share(),
        location: state.location.clone(),
        node: Arc::clone(&node),
        traces: traces.clone(),
        print_banner,
    };
    let register = WriterRegister::open(state.opened(), request_max);
    let driver =
        Driver::new(Election::new(config), register, host, Arc::clone(&node), drain.clone());
    let (stop_driver, stopping) = watch::channel(false);
    let driver = tokio::spawn(driver.run(stopping));
    let announced = tokio::spawn(members.clone().keep_announced(record.clone()));
    tokio::spawn(report_standby(Arc::clone(&node), print_standby));
    let ports = Ports::serve(&settings, &dependencies, bound, &node, identity, listener, &members)?;
    stop.await;
    tracing::info!("shutting down: draining requests in flight");
    stop_driver.send_replace(true);
    drained(&drain, driver, ports, &settings).await;
    announced.abort();
    if let Err(error) = members.withdraw(&record).await {
        let error = chain(&error);
        tracing::warn!(error, "cannot delete the record of this member of the cluster");
    }
    if let Some(traces) = traces.and_then(Arc::into_inner) {
        traces.finish().await;
    }
    Ok(())
}

/// Drains the ports. The writer closes its store and releases its lease after that.
async fn drained(
    drain: &watch::Sender<DrainState>,
    mut driver: JoinHandle<()>,
    ports: Ports,
    settings: &Settings,
) {
    let mut requested = drain.subscribe();
    // A standby has nothing to close, so its driver ends at once.
    let is_ended = tokio::select! {
        _ = requested.wait_for(|state| *state == DrainState::Requested) => false,
        _ = &mut driver => true,
    };
    ports.stop.send_replace(true);
    let drain_max = Duration::from_secs(settings.server.drain_seconds_max);
    if tokio::time::timeout(drain_max, join_all(ports.tasks)).await.is_err() {
        tracing::warn!(seconds = drain_max.as_secs(), "some requests did not complete in time");
    }
    drain.send_replace(DrainState::Completed);
    if !is_ended && let Err(panic) = driver.await {
        tracing::error!(%panic, "the election of the cluster has failed");
    }
}

fn record(
    settings: &Settings,
    dependencies: &Dependencies,
    identity: &MemberIdentity,
    listener: &TcpListener,
) -> Result<MemberRecord, ClusterError> {
    let address = settings.cluster.listen;
    let local = listener.local_addr().map_err(|source| ClusterError::Listen { address, source })?;
    let host = host_name();
    let advertised = match settings.cluster.advertise.as_str() {
        "" if local.ip().is_unspecified() => format!("{host}:{}", local.port()),
        "" => local.to_string(),
        set => set.to_owned(),
    };
    let name = match settings.cluster.name.as_str() {
        "" => host,
        set => set.to_owned(),
    };
    let node = dependencies.ids.random();
    let member = slateberg_cluster::Member { node, name, version: VERSION.to_owned() };
    let url = format!("https://{advertised}");
    let peer = Peer { url, public_key_sha256: identity.sha256.clone() };
    Ok(MemberRecord::new(member, peer, settings.cluster.eligible))
}

/// Prints once that this process is a standby.
async fn report_standby(node: Arc<Node>, print: Box<dyn FnOnce(&str) + Send>) {
    let mut writer = node.writer();
    let Ok(known) = writer.wait_for(|known| *known != KnownWriter::Unknown).await else { return };
    if let KnownWriter::Remote(record) = &*known {
        print(&record.holder.name);
    }
}

/// The open ports of a member.
struct Ports {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Ports {
    fn serve(
        settings: &Settings,
        dependencies: &Dependencies,
        bound: BoundPorts,
        node: &Arc<Node>,
        identity: MemberIdentity,
        listener: TcpListener,
        members: &Members,
    ) -> Result<Self, ClusterError> {
        let (stop, stopping) = watch::channel(false);
        let connections = &dependencies.connections;
        let registry = Arc::new(Registry::default());
        let source = Arc::clone(node);
        registry.register("cluster", move |into| source.collect(into));
        registry.register("process", process::collect);
        let source = Arc::clone(connections);
        registry.register("connections", move |into| source.collect(into));
        if let Some(tls) = &bound.tls {
            let source = Arc::clone(tls);
            registry.register("tls", move |into| source.collect(into));
            tokio::spawn(Arc::clone(tls).watch(stopping.clone()));
        }
        let handshakes = MemberHandshakes::new(&identity, members.clone())?;
        let handshakes: Arc<dyn Handshakes> = Arc::new(handshakes);
        let lease_wait = settings.cluster.lease_wait();
        let waits = (settings.cluster.forward_wait(), lease_wait);
        let ids = Arc::clone(&dependencies.ids);
        let forwarder = Forwarder::new(Arc::clone(node), identity, ids, &settings.server, waits);
        let forwarder = Arc::new(forwarder);
        let port = |kind, has_metrics: bool| ClusterPort {
            node: Arc::clone(node),
            kind,
            forwarder: Arc::clone(&forwarder),
            metrics: has_metrics.then(|| Arc::clone(&registry)),
            lease_wait,
        };
        let member_port = MemberPort {
            node: Arc::clone(node),
            certificates: Arc::new(ClientCertificates::new(&settings.authn.client_certificates)),
            lease_wait,
        };
        let limits = Limits::for_members(settings);
        let members =
            connections::serve(member_port, listener, Some(handshakes), limits, stopping.clone());
        let clients = port(PortKind::Clients, bound.operators.is_none());
        let limits = Limits::for_clients(settings, connections);
        let mut tasks = vec![members, bound.clients.serve(clients, limits, &stopping)];
        if let Some(operators) = bound.operators {
            let limits = Limits::for_operators(settings, connections);
            tasks.push(operators.serve(port(PortKind::Operators, true), limits, &stopping));
        }
        Ok(Self { stop, tasks })
    }
}
