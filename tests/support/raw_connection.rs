//! [`RawConnection`]: a connection for handwritten requests.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::served_app::ServedApp;

/// A connection for handwritten requests.
pub struct RawConnection(TcpStream);

impl RawConnection {
    /// Connects to an unencrypted server.
    pub async fn connect(server: &ServedApp) -> Self {
        Self::connect_to_uri(&server.uri).await
    }

    /// Connects to the port of `http://ADDRESS:PORT`.
    pub async fn connect_to_uri(uri: &str) -> Self {
        let address = uri.strip_prefix("http://").expect("it is not encrypted");
        Self(TcpStream::connect(address).await.expect("it listens"))
    }

    /// Sends these bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the connection is there");
    }

    /// Waits until the server has closed the connection, and returns the bytes received before.
    pub async fn read_until_closed(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = timeout(Duration::from_secs(30), self.0.read_to_end(&mut read)).await;
        // A server resets the connection if it has not read all input.
        let _reset = reading.expect("the server closes the connection");
        read
    }

    /// Waits until the server has closed the connection, without a reset and without further bytes.
    pub async fn expect_end(&mut self) {
        let reading = timeout(Duration::from_secs(30), self.0.read(&mut [0])).await;
        let read = reading.expect("the server closes the connection").expect("it is not reset");
        assert_eq!(read, 0, "the connection ends");
    }

    /// Sends head and body of a `POST` separately, like many clients.
    pub async fn post(&mut self, path: &str, length: usize) {
        self.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"))
            .await;
        sleep(Duration::from_millis(100)).await;
        self.send(" ".repeat(length)).await;
    }

    /// Returns the status and the head of the next response.
    pub async fn read_response(&mut self) -> (u16, String) {
        let mut read = Vec::new();
        let head = loop {
            let mut byte = [0];
            let got = timeout(Duration::from_secs(20), self.0.read(&mut byte)).await;
            assert_eq!(got.expect("in time").expect("a connection"), 1, "the connection ended");
            read.push(byte[0]);
            if read.ends_with(b"\r\n\r\n") {
                break String::from_utf8(read).expect("text").to_ascii_lowercase();
            }
        };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(0, |length| length.parse().expect("a number"));
        self.0.read_exact(&mut vec![0; length]).await.expect("a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), head)
    }
}
