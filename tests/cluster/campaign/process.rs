//! [`Process`]: a member of a cluster that a test can kill and pause.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use object_store::ObjectStore;
use reqwest::Client;
use slateberg::app::cluster::{self, ClusterError};
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::remote_bucket::RemoteBucket;
use crate::member::{PAUSE, TIMEOUT, bind_member, member_settings, writer_record};
use crate::relay::{Relay, free_address};
use crate::support::app::bucket_opener;
use crate::support::clock::JumpingClock;
use crate::support::faults::FaultStore;

/// Settings of the lease, in milliseconds.
pub const LEASE_MS: u64 = 600;
const RENEW_MS: u64 = 100;
/// Maximum time of a stop in order. Other clusters use the same cores.
const STOP_MAX: Duration = Duration::from_secs(120);

/// The end of a process. `None` if it was killed.
type End = Option<Result<(), ClusterError>>;

/// A member with a runtime of its own, whose only thread executes all its tasks. So the test can end
/// or pause all of them at once, as with a process.
pub struct Process {
    /// The URL for clients.
    pub uri: String,
    /// The fault injection in front of the bucket.
    pub faults: Arc<FaultStore>,
    /// The connections from other members.
    pub relay: Relay,
    /// The wall clock.
    pub clock: Arc<JumpingClock>,
    stop: oneshot::Sender<()>,
    kill: oneshot::Sender<()>,
    ended: oneshot::Receiver<End>,
    runtime: Handle,
    /// Ends the pause when it is dropped.
    pause: Option<mpsc::Sender<()>>,
}

/// Returns settings with short leases and short waits.
fn settings_of(name: &str) -> Settings {
    let mut settings = member_settings(name);
    settings.cluster.lease_ms = LEASE_MS;
    settings.cluster.renew_ms = RENEW_MS;
    settings.cluster.lease_wait_ms = 200;
    settings.cluster.forward_wait_ms = 3_000;
    settings.catalog.commit_deadline_ms = 2_000;
    // A purge deletes the files at once.
    settings.catalog.dropped_kept_seconds = 0;
    settings
}

impl Process {
    /// Starts a member on this bucket, and waits until its ports are open. Like a supervisor, starts it
    /// again if another socket has taken its address or the bucket was too slow.
    pub async fn start(bucket: &Arc<dyn ObjectStore>, name: &str, client: &Client) -> Self {
        loop {
            let mut process = Self::launch(bucket, name).await;
            if process.opens(client).await {
                return process;
            }
        }
    }

    async fn launch(bucket: &Arc<dyn ObjectStore>, name: &str) -> Self {
        let (faults, clock) = (FaultStore::new(Arc::clone(bucket)), Arc::<JumpingClock>::default());
        let listen = free_address().await;
        let relay = Relay::start(listen).await;
        let mut settings = settings_of(name);
        settings.cluster.listen = listen;
        settings.cluster.advertise = relay.address.to_string();
        let opener = bucket_opener(RemoteBucket::new(&faults));
        let dependencies =
            Dependencies { opener, clock: Arc::clone(&clock) as _, ..Dependencies::default() };
        let (stop, stopping) = oneshot::channel();
        let (kill, killed) = oneshot::channel();
        let (start, started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let ended = runtime.block_on(async {
                let (member, uri) = bind_member(settings, dependencies, Arc::new(|_| {})).await;
                let _ = start.send((uri, Handle::current()));
                let running = cluster::run(member, async move {
                    let _ = stopping.await;
                });
                tokio::select! {
                    biased;
                    _ = killed => None,
                    ended = running => Some(ended),
                }
            });
            // Drops all tasks and connections.
            runtime.shutdown_background();
            let _ = end.send(ended);
        });
        let (uri, runtime) = started.await.expect("it starts");
        Self { uri, faults, relay, clock, stop, kill, ended, runtime, pause: None }
    }

    /// Waits until the ports are open. Returns `false` if the member has to be started again.
    async fn opens(&mut self, client: &Client) -> bool {
        let opening = async {
            let url = format!("{}/health", self.uri);
            loop {
                match self.ended.try_recv() {
                    // On a busy machine, the announcement can take longer than a part of the lease.
                    Ok(Some(Err(ClusterError::Listen { .. } | ClusterError::Announce(_)))) => {
                        return false;
                    }
                    Ok(ended) => panic!("the member has ended: {ended:?}"),
                    Err(oneshot::error::TryRecvError::Closed) => panic!("the member has panicked"),
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                // The port is bound before it responds.
                let request = client.get(&url).timeout(10 * PAUSE).send();
                if request.await.is_ok_and(|response| response.status() == 200) {
                    return true;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        timeout(TIMEOUT, opening).await.expect("the ports open in time")
    }

    /// Ends the member without any further step, like `kill -9`. Requests that it has sent to the
    /// bucket may still take effect.
    pub async fn kill(self) {
        let Self { kill, ended, pause, .. } = self;
        let _ = kill.send(());
        drop(pause);
        timeout(TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
    }

    /// Stops the member in order. Fails with the record of the writer if this takes too long.
    pub async fn stop(self, bucket: &Arc<dyn ObjectStore>) {
        // The relay passes on connections until the member has stopped.
        let Self { stop, ended, relay: _relay, kill: _kill, uri, .. } = self;
        let _ = stop.send(());
        let Ok(ended) = timeout(STOP_MAX, ended).await else {
            panic!("{uri} does not stop: {}", writer_record(bucket).await);
        };
        ended.expect("no panic").expect("it was not killed").expect("it stops without an error");
    }

    /// Returns how the member has ended, if it has, although the test has not ended it.
    pub fn has_ended(&mut self) -> Option<String> {
        match self.ended.try_recv() {
            Ok(ended) => Some(format!("{ended:?}")),
            Err(oneshot::error::TryRecvError::Closed) => Some("a panic".to_owned()),
            Err(oneshot::error::TryRecvError::Empty) => None,
        }
    }

    /// Stops all activity of the member, like `SIGSTOP`. Its connections stay open.
    pub fn pause(&mut self) {
        let (pause, paused) = mpsc::channel::<()>();
        self.runtime.spawn(async move {
            // Blocks the only thread.
            let _ = paused.recv_timeout(2 * TIMEOUT);
        });
        self.pause = Some(pause);
    }

    /// Continues after a pause, like `SIGCONT`.
    pub fn resume(&mut self) {
        self.pause = None;
    }

    /// Ends all faults, except that a clock that has jumped stays wrong.
    pub fn recover(&mut self) {
        self.resume();
        self.faults.lift();
        self.relay.mend();
    }
}

/// The time after which another member takes over from a writer that has stopped.
pub fn takeover() -> Duration {
    Duration::from_millis(LEASE_MS + 200)
}
