//! Runs a member of a cluster until a stop signal arrives.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use super::bucket_contact::BucketContact;
use super::catalog_host::{CatalogHost, PrintBanner, ReplicaHost};
use super::catalog_services::PortKind;
use super::driver::{DrainState, Driver};
use super::follower::{Follower, RunningFollower};
use super::forward::Forwarder;
use super::identity::{IdentityError, MemberIdentity};
use super::member_port::MemberPort;
use super::member_tls::MemberHandshakes;
use super::node::{KnownWriter, Node};
use super::peers::Peers;
use super::ports::ClusterPort;
use super::transfers::Transfers;
use crate::api::cluster::ClusterControl;
use crate::api::frame::RequestFrame;
use crate::api::observe::Observer;
use crate::app::connections::{self, Limits, Stop};
use crate::app::routes::observer;
use crate::app::run::{BoundPorts, hint, listen};
use crate::app::tls::handshake::Handshakes;
use slateberg_authn::client_certificates::ClientCertificates;
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::host::host_name;
use slateberg_base::version::VERSION;
use slateberg_catalog::planning::PlanningState;
use slateberg_cluster::{Election, ElectionConfig, Peer, Role, SharedSettings};
use slateberg_config::Settings;
use slateberg_runtime::build::read_issuers;
use slateberg_runtime::cluster::{MemberRecord, Members, RecordSigner, WriterRegister};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::state::State;
use slateberg_store::encryption::IfMissing;
use slateberg_store::open::StoreLocation;
use slateberg_telemetry::otlp::Traces;
use slateberg_telemetry::process;
use slateberg_telemetry::registry::Registry;

/// Parts of the duration of a lease that one request may take.
const REQUESTS_IN_LEASE: u32 = 4;
/// Time for which a member that stops keeps connections without a request open. While the writer changes,
/// all clients may wait for it, so that no response announces the end of an idle connection. This time is
/// longer than a change of the writer usually takes.
const IDLE_MAX: Duration = Duration::from_secs(1);

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
    /// A part of the server failed while it ran.
    #[error("the server stopped because {part} of this member of the cluster failed: {reason}")]
    Failed {
        /// The part.
        part: &'static str,
        /// The reason.
        reason: String,
    },
    /// The record of this member cannot be written.
    #[error("cannot write the record of this member to the bucket of the state: {0}")]
    Announce(#[source] Cause),
}

/// A member whose ports are bound.
pub struct Member {
    /// The settings, with shares of memory.
    pub settings: Settings,
    /// The newest format of the store that this process reads.
    pub store_format: u32,
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
    let Member { settings, store_format, dependencies, bound, traces, print_banner, print_standby } =
        member;
    let (state, signer, dependencies) = open_state(dependencies, &settings).await?;
    let lease = settings.cluster.lease(&state.url);
    let request_max = lease / REQUESTS_IN_LEASE;
    let identity = MemberIdentity::generate()?;
    let address = settings.cluster.listen;
    let listener = listen(address).await;
    let listener = listener.map_err(|source| ClusterError::Listen { address, source })?;
    let record = record(&settings, store_format, &dependencies, &identity, &listener)?;
    let members = Members::open(state.opened(), &signer, request_max);
    announce(&members, &record).await?;
    let bucket = BucketContact::new(settings.cluster.without_bucket, lease);
    let (node, commands) = Node::new(Arc::clone(&dependencies.clock), &record.member, bucket);
    let peers = Peers::new(identity, members.clone(), record.member.node);
    let transfers = Transfers::new(Arc::clone(&node), Arc::clone(&peers));
    let observer = Arc::new(observer(&settings));
    let (drain, traces) = (watch::Sender::new(DrainState::Open), traces.map(Arc::new));
    let host = CatalogHost {
        settings: settings.clone(),
        dependencies: dependencies.share(),
        location: state.location.clone(),
        node: Arc::clone(&node),
        control: Arc::clone(&transfers) as _,
        observer: Arc::clone(&observer),
        traces: traces.clone(),
        print_banner,
    };
    let register = WriterRegister::open(state.opened(), &signer, request_max);
    let shared = (Arc::clone(&node), commands, Arc::clone(&peers));
    let driver =
        Driver::new(election(&settings, lease, &record), register, host, shared, drain.clone());
    let (stop_driver, stopping) = watch::channel(false);
    let mut driver = tokio::spawn(driver.run(stopping));
    let announced = tokio::spawn(members.clone().keep_announced(record.clone()));
    tokio::spawn(report_standby(Arc::clone(&node), print_standby));
    let parts = PortParts {
        settings: &settings,
        dependencies: &dependencies,
        node: &node,
        peers: &peers,
        observer: &observer,
        members: &members,
        control: &(Arc::clone(&transfers) as _),
    };
    let following = follow(&parts, state.location.clone());
    let mut ports = Ports::serve(&parts, bound, listener)?;
    until_stopped(stop, &mut driver, &mut ports).await?;
    tracing::info!("shutting down: draining requests in flight");
    node.shutdown.begin();
    become_standby(&node, &transfers, &settings, lease).await;
    // A standby needs the election to complete its requests: the writer may change.
    if !matches!(node.role(), Role::Writer | Role::Opening) {
        ports.drain(&settings).await;
    }
    stop_driver.send_replace(true);
    stopped(&drain, driver, ports, &settings).await;
    announced.abort();
    withdraw(&members, &record, following).await;
    if let Some(traces) = traces.and_then(Arc::into_inner) {
        traces.finish().await;
    }
    Ok(())
}

/// Opens the state, and unlocks its keys if it is encrypted. Also returns the signer of records, and
/// dependencies that all catalogs of this process share. A replica opens the catalog again and again.
/// It must not forget the keys of the issuers and of the state, and the manifests of tables.
async fn open_state(
    dependencies: Dependencies,
    settings: &Settings,
) -> Result<(State, RecordSigner, Dependencies), ClusterError> {
    let issuers = Some(read_issuers(settings)?);
    let planning = Some(PlanningState::new(&settings.catalog));
    let mut state = State::offline(settings, &dependencies).await?;
    state.probe(&dependencies).await?;
    if !state.opened().conditional_update {
        return Err(ClusterError::Unconditional(state.url));
    }
    let keys = state.unlock(IfMissing::Create).await?;
    let signer = RecordSigner::new(keys.as_ref()).map_err(BuildError::Encryption)?;
    let encryption = state.location.encryption.clone();
    Ok((state, signer, Dependencies { issuers, planning, encryption, ..dependencies }))
}

/// Starts to keep a replica, unless the settings turn this off.
fn follow(parts: &PortParts<'_>, location: StoreLocation) -> Option<RunningFollower> {
    let PortParts { settings, dependencies, node, peers, observer, control, .. } = *parts;
    settings.cluster.local_reads.then(|| {
        let host = ReplicaHost {
            settings: settings.clone(),
            dependencies: dependencies.share(),
            location,
            control: Arc::clone(control),
            observer: Arc::clone(observer),
        };
        Follower::start(host, Arc::clone(node), Arc::clone(peers))
    })
}

/// Ends the replica, and deletes the record of this member.
async fn withdraw(members: &Members, record: &MemberRecord, following: Option<RunningFollower>) {
    if let Some(following) = following {
        following.stop().await;
    }
    if let Err(error) = members.withdraw(record).await {
        let error = chain(&error);
        tracing::warn!(error, "cannot delete the record of this member of the cluster");
    }
}

/// Writes the record of this member, and removes those of members that have crashed.
async fn announce(members: &Members, record: &MemberRecord) -> Result<(), ClusterError> {
    members.announce(record).await.map_err(ClusterError::Announce)?;
    if let Err(error) = members.remove_expired().await {
        let error = chain(&error);
        tracing::warn!(error, "cannot remove the records of earlier members of the cluster");
    }
    Ok(())
}

fn election(settings: &Settings, lease: Duration, record: &MemberRecord) -> Election {
    Election::new(ElectionConfig {
        lease_ms: lease.as_millis() as u64,
        renew_ms: settings.cluster.renewal(lease).as_millis() as u64,
        eligible: settings.cluster.eligible,
        member: record.member.clone(),
        peer: record.peer.clone(),
    })
}

/// Waits for the stop. The election and the ports end before it only if they have failed. Without the
/// election, this process would respond to no request until it is restarted.
async fn until_stopped(
    stop: impl Future<Output = ()>,
    driver: &mut JoinHandle<()>,
    ports: &mut Ports,
) -> Result<(), ClusterError> {
    tokio::select! {
        () = stop => Ok(()),
        ended = driver => Err(failed("the election", ended.err())),
        (ended, ..) = select_all(ports.tasks.iter_mut()) => Err(failed("a port", ended.err())),
    }
}

fn failed(part: &'static str, panic: Option<JoinError>) -> ClusterError {
    let reason = panic.map_or("it ended".to_owned(), |panic| panic.to_string());
    ClusterError::Failed { part, reason }
}

/// Gives the term of a writer that stops to another member, if there is one. After that, this
/// process forwards the requests that still arrive to the next writer.
async fn become_standby(node: &Node, transfers: &Transfers, settings: &Settings, lease: Duration) {
    if matches!(node.role(), Role::Writer | Role::Opening) {
        let drain_max = Duration::from_secs(settings.server.drain_seconds_max);
        transfers.hand_over(drain_max + lease).await;
    }
}

/// Waits until the election has stopped. The writer completes its requests, closes its store and
/// releases its lease before that.
async fn stopped(
    drain: &watch::Sender<DrainState>,
    mut driver: JoinHandle<()>,
    mut ports: Ports,
    settings: &Settings,
) {
    let mut requested = drain.subscribe();
    // A standby has nothing to close, so its driver ends at once.
    let is_ended = tokio::select! {
        _ = requested.wait_for(|state| *state == DrainState::Requested) => false,
        _ = &mut driver => true,
    };
    ports.drain(settings).await;
    drain.send_replace(DrainState::Completed);
    if !is_ended && let Err(panic) = driver.await {
        tracing::error!(%panic, "the election of the cluster has failed");
    }
}

fn record(
    settings: &Settings,
    store_format: u32,
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
    let shared = SharedSettings(settings.shared_hashes());
    let version = VERSION.to_owned();
    let store_format = Some(store_format);
    let member = slateberg_cluster::Member { node, name, version, store_format, settings: shared };
    let url = format!("https://{advertised}");
    let peer = Peer { url, certificate_sha256: identity.sha256.clone() };
    Ok(MemberRecord::new(member, peer, settings.cluster.eligible))
}

/// Prints once that this process is a standby.
async fn report_standby(node: Arc<Node>, print: Box<dyn FnOnce(&str) + Send>) {
    let mut writer = node.writer();
    let has_writer =
        |known: &KnownWriter| matches!(known, KnownWriter::Remote(_) | KnownWriter::Local(_));
    let Ok(known) = writer.wait_for(has_writer).await else { return };
    if let KnownWriter::Remote(record) = &*known {
        print(&record.holder.name);
    }
}

/// The parts that all ports of a member share.
struct PortParts<'a> {
    settings: &'a Settings,
    dependencies: &'a Dependencies,
    node: &'a Arc<Node>,
    peers: &'a Arc<Peers>,
    observer: &'a Arc<Observer>,
    members: &'a Members,
    control: &'a Arc<dyn ClusterControl>,
}

/// The open ports of a member.
struct Ports {
    close: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Ports {
    /// Completes the requests in progress, and accepts no further ones.
    async fn drain(&mut self, settings: &Settings) {
        self.close.send_replace(true);
        let drain_max = IDLE_MAX + Duration::from_secs(settings.server.drain_seconds_max);
        let draining = join_all(std::mem::take(&mut self.tasks));
        if tokio::time::timeout(drain_max, draining).await.is_err() {
            tracing::warn!(seconds = drain_max.as_secs(), "some requests did not complete in time");
        }
    }

    fn serve(
        parts: &PortParts<'_>,
        bound: BoundPorts,
        listener: TcpListener,
    ) -> Result<Self, ClusterError> {
        let PortParts { settings, dependencies, node, peers, observer, members, .. } = *parts;
        let (close, is_closing) = watch::channel(false);
        let stop = Stop { shutdown: Arc::clone(&node.shutdown), is_closing, idle_max: IDLE_MAX };
        let connections = &dependencies.connections;
        let registry = Arc::new(Registry::default());
        let source = Arc::clone(node);
        registry.register("cluster", move |into| source.collect(into));
        let source = Arc::clone(observer);
        registry.register("http", move |into| source.collect(into));
        registry.register("process", process::collect);
        let source = Arc::clone(connections);
        registry.register("connections", move |into| source.collect(into));
        if let Some(tls) = &bound.tls {
            let source = Arc::clone(tls);
            registry.register("tls", move |into| source.collect(into));
            tokio::spawn(Arc::clone(tls).watch(stop.is_closing.clone()));
        }
        let handshakes =
            MemberHandshakes::new(peers.identity(), members.clone(), Arc::clone(node))?;
        let handshakes: Arc<dyn Handshakes> = Arc::new(handshakes);
        let lease_wait = settings.cluster.lease_wait();
        let waits = (settings.cluster.forward_wait(), lease_wait);
        let ids = Arc::clone(&dependencies.ids);
        let frame = RequestFrame::new(Arc::clone(observer), ids.random());
        let frame = Arc::new(frame);
        let (shared_node, peers) = (Arc::clone(node), Arc::clone(peers));
        let observer = Arc::clone(observer);
        let forwarder = Forwarder::new(shared_node, peers, ids, observer, settings, waits);
        let forwarder = Arc::new(forwarder);
        let port = |kind, has_metrics: bool| {
            Arc::new(ClusterPort {
                node: Arc::clone(node),
                kind,
                forwarder: Arc::clone(&forwarder),
                frame: Arc::clone(&frame),
                metrics: has_metrics.then(|| Arc::clone(&registry)),
                lease_wait,
            })
        };
        let member_port = MemberPort {
            node: Arc::clone(node),
            certificates: Arc::new(ClientCertificates::new(&settings.authn.client_certificates)),
            lease_wait,
        };
        let limits = Limits::for_members(settings);
        let members =
            connections::serve(member_port, listener, Some(handshakes), limits, stop.clone());
        // A standby checks no credential, so it must not show metrics that require one.
        let are_public = !settings.authn.metrics_need_credential;
        let clients = port(PortKind::Clients, are_public && bound.operators.is_none());
        let limits = Limits::for_clients(settings, connections);
        let mut tasks = vec![members, bound.clients.serve(clients, limits, &stop)];
        if let Some(operators) = bound.operators {
            let limits = Limits::for_operators(settings, connections);
            tasks.push(operators.serve(port(PortKind::Operators, are_public), limits, &stop));
        }
        Ok(Self { close, tasks })
    }
}
