//! [`Relay`]: a network connection to a member that a test can cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes connections on to an address. Ends when it is dropped.
pub struct Relay {
    /// The address for clients.
    pub address: SocketAddr,
    is_cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts to pass connections on to `target`.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (is_cut, cut) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, target, cut.clone()));
            }
        });
        Self { address, is_cut, accepting }
    }

    /// Closes all connections, and accepts no further ones.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Passes connections on again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass_on(mut client: TcpStream, target: SocketAddr, mut cut: watch::Receiver<bool>) {
    if *cut.borrow_and_update() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.wait_for(|is_cut| *is_cut) => {}
    }
}
