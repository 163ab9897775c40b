//! [`Relay`]: a network connection to a member that a test can cut.

use std::net::SocketAddr;

use slateberg_config::Settings;
use tokio::io::{copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Returns an address at which a member can listen.
pub async fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    listener.local_addr().expect("it is bound")
}

/// Passes connections on to an address. Ends when it is dropped.
pub struct Relay {
    /// The address for clients.
    pub address: SocketAddr,
    state: watch::Sender<RelayState>,
    accepting: JoinHandle<()>,
}

/// The handling of connections by a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayState {
    PassOn,
    /// All connections stay open, and pass on nothing.
    Frozen,
    /// Requests arrive, and their responses do not.
    WithoutResponses,
    /// All connections are closed.
    Cut,
}

impl Relay {
    /// Starts to pass connections on to `target`.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (state, states) = watch::channel(RelayState::PassOn);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, target, states.clone()));
            }
        });
        Self { address, state, accepting }
    }

    /// Starts a relay through which other members reach a member with these settings.
    pub async fn in_front_of(settings: &mut Settings) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let listen = free.local_addr().expect("it is bound");
        let relay = Self::start(listen).await;
        settings.cluster.listen = listen;
        settings.cluster.advertise = relay.address.to_string();
        relay
    }

    /// Closes all connections, and accepts no further ones.
    pub fn cut(&self) {
        self.state.send_replace(RelayState::Cut);
    }

    /// Leaves all connections open, and passes on nothing.
    pub fn freeze(&self) {
        self.state.send_replace(RelayState::Frozen);
    }

    /// Leaves all connections open, and passes on what clients send, but no responses.
    pub fn lose_responses(&self) {
        self.state.send_replace(RelayState::WithoutResponses);
    }

    /// Passes connections on again.
    pub fn mend(&self) {
        self.state.send_replace(RelayState::PassOn);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass_on(
    mut client: TcpStream,
    target: SocketAddr,
    mut states: watch::Receiver<RelayState>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    if *states.borrow_and_update() == RelayState::PassOn {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = states.wait_for(|state| *state != RelayState::PassOn) => {}
        }
    }
    let is_failed =
        |state: &RelayState| matches!(state, RelayState::Frozen | RelayState::WithoutResponses);
    if *states.borrow_and_update() == RelayState::WithoutResponses {
        tokio::select! {
            _ = copy(&mut client, &mut server) => {}
            _ = states.wait_for(|state| *state != RelayState::WithoutResponses) => {}
        }
    }
    // The connections of a relay that failed are not used again.
    let _ = states.wait_for(|state| !is_failed(state)).await;
}
