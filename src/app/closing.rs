//! A door for connections that closes when the server stops, and before anybody who is in has to go.

use std::io;
use std::net::SocketAddr;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Listens for connections until it is told to stop. Those that the system has taken by then come in; later
/// ones are refused by the system, so that nobody waits at a door that nobody opens.
pub struct ClosingListener {
    /// None once it is closed.
    tcp: Option<TcpListener>,
    address: io::Result<SocketAddr>,
    stopping: watch::Receiver<bool>,
}

impl ClosingListener {
    /// Takes what this listener accepts until `stopping` turns true.
    pub fn new(tcp: TcpListener, stopping: watch::Receiver<bool>) -> Self {
        let address = tcp.local_addr();
        Self { tcp: Some(tcp), address, stopping }
    }

    /// The next connection, and from where it comes. Never ready once the door is closed.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        if let Some(tcp) = &mut self.tcp {
            tokio::select! {
                // In this order: whoever stands in front of the door comes in before it is closed.
                biased;
                // The trait's own accept waits where the system has no room for another connection.
                accepted = Listener::accept(tcp) => return accepted,
                // Whoever would tell has gone, which is an end as well.
                _ = self.stopping.wait_for(|stop| *stop) => {}
            }
        }
        self.tcp = None;
        std::future::pending().await
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }
}
