//! [`MemberHandshakes`]: TLS on the connections of other members.
//!
//! Any process that reaches the port can open connections, so each of them costs little: the number
//! and the duration of handshakes are bounded, also per address, and so is the rate of requests to
//! the bucket about unknown certificates.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::identity::{IdentityError, MemberIdentity, sha256};
use super::node::Node;
use crate::api::peer::Peer;
use crate::app::tls::handshake::{Handshake, Handshakes};
use slateberg_base::error_chain::chain;
use slateberg_base::network::network;
use slateberg_base::rate::{LogThrottle, RateLimit};
use slateberg_runtime::cluster::Members;

/// Maximum number of concurrent handshakes, and of those of one address.
const HANDSHAKES_MAX: usize = 64;
const HANDSHAKES_OF_ADDRESS_MAX: usize = 8;
/// Timeout of a handshake and of the check of its certificate.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Requests per second to the bucket about certificates that are not known.
const CHECKS_PER_SECOND: u32 = 10;
/// Certificates of members are remembered for this time, so that a member can connect again even
/// while other processes open many connections.
const KNOWN_MAX: usize = 256;
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Minimum time between two log lines about rejected connections.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The server's side of TLS for other members.
pub(super) struct MemberHandshakes {
    config: Arc<ServerConfig>,
    members: Members,
    node: Arc<Node>,
    known: Cache<String, Instant>,
    checks: RateLimit,
    reports: LogThrottle,
    /// Handshakes in progress by address.
    in_progress: Mutex<HashMap<IpAddr, usize>>,
}

/// Counts a handshake of an address as in progress until it is dropped.
struct InProgress<'a>(&'a MemberHandshakes, IpAddr);

impl MemberHandshakes {
    /// Accepts connections of processes whose certificates have a record in `members`.
    pub(super) fn new(
        identity: &MemberIdentity,
        members: Members,
        node: Arc<Node>,
    ) -> Result<Self, IdentityError> {
        Ok(Self {
            config: Arc::new(identity.server_config()?),
            members,
            node,
            known: Cache::new(KNOWN_MAX),
            checks: RateLimit::per_second(CHECKS_PER_SECOND),
            reports: LogThrottle::new(REPORT_EVERY),
            in_progress: Mutex::default(),
        })
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<(TlsStream<TcpStream>, Peer), String> {
        let too_many = "too many handshakes of one address are in progress";
        let _in_progress = self.begin(network(address.ip())).ok_or(too_many)?;
        let accept = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        let stream = accept.await.map_err(|error| format!("TLS failed: {error}"))?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(<[_]>::first).ok_or("no certificate")?;
        self.check(&sha256(certificate)).await?;
        Ok((stream, Peer { address, certificate: None }))
    }

    /// Errors unless the certificate with this hash belongs to a member.
    async fn check(&self, hash: &str) -> Result<(), String> {
        if self.known.get(hash).is_some_and(|since| since.elapsed() < KNOWN_FOR) {
            return Ok(());
        }
        self.checks.wait().await;
        match self.members.contains(hash).await {
            Ok(true) => {
                self.known.insert(hash.to_owned(), Instant::now());
                Ok(())
            }
            Ok(false) => Err("the process is not a member of the cluster".to_owned()),
            Err(error) => Err(format!("the members cannot be read: {}", chain(&error))),
        }
    }

    fn begin(&self, network: IpAddr) -> Option<InProgress<'_>> {
        let mut in_progress = self.in_progress.lock().unwrap_or_else(PoisonError::into_inner);
        let count = in_progress.entry(network).or_default();
        (*count < HANDSHAKES_OF_ADDRESS_MAX).then(|| {
            *count += 1;
            InProgress(self, network)
        })
    }

    fn reject(&self, address: SocketAddr, reason: &str) {
        let rejections = &self.node.counters.rejected_connections;
        rejections.add(1);
        if self.reports.is_due() {
            let rejections = rejections.get();
            tracing::warn!(%address, reason, rejections, "rejected a connection to the port for members of the cluster");
        }
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        let Self(handshakes, network) = self;
        let in_progress = handshakes.in_progress.lock();
        let mut in_progress = in_progress.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_progress.get_mut(network) {
            *count -= 1;
            if *count == 0 {
                in_progress.remove(network);
            }
        }
    }
}

impl Handshakes for MemberHandshakes {
    fn concurrent_max(&self) -> usize {
        HANDSHAKES_MAX
    }

    fn accept(self: Arc<Self>, stream: TcpStream, address: SocketAddr) -> Handshake {
        Box::pin(async move {
            let result = timeout(HANDSHAKE_MAX, self.handshake(stream, address)).await;
            let result = result.unwrap_or_else(|_| Err("the handshake took too long".to_owned()));
            result.map_err(|reason| self.reject(address, &reason)).ok()
        })
    }
}
