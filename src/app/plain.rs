//! Connections that are not encrypted.

use std::io;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::TcpStream;

use super::closing::ClosingListener;
use crate::api::peer::Peer;

/// Listens for connections.
pub struct PlainListener(ClosingListener);

impl PlainListener {
    /// Takes what this listener accepts as it is.
    pub fn new(tcp: ClosingListener) -> Self {
        Self(tcp)
    }
}

impl Listener for PlainListener {
    type Io = TcpStream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.0.accept().await;
        // Without it, the end of a long answer would wait for the client's acknowledgement of its beginning.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection ended before it was served");
        }
        (stream, Peer { address, certificate: None })
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Peer { address: self.0.local_addr()?, certificate: None })
    }
}

impl Connected<IncomingStream<'_, PlainListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PlainListener>) -> Self {
        stream.remote_addr().clone()
    }
}
