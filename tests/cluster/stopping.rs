//! Members that stop announce the end of the connections of their clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::member::{member_settings, writer_and_standby};
use crate::support::bucket::bucket;

/// A client or a proxy that uses its connection all the time.
struct Connection(TcpStream);

impl Connection {
    async fn open(uri: &str) -> Self {
        let address = uri.strip_prefix("http://").expect("it is not encrypted");
        Self(TcpStream::connect(address).await.expect("it listens"))
    }

    /// Sends a request, and returns the head of the response.
    async fn config(&mut self) -> String {
        let Self(stream) = self;
        let request = b"GET /v1/config HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.expect("the connection is open");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("the response is complete"));
        }
        let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.expect("a length").parse().expect("a number");
        stream.read_exact(&mut vec![0; length]).await.expect("the body is complete");
        head
    }

    /// Sends requests until a response announces the end of the connection.
    async fn use_until_the_end(mut self) {
        while !self.config().await.contains("connection: close") {}
        assert_eq!(self.0.read(&mut [0]).await.expect("it is not reset"), 0, "the connection ends");
    }
}

#[tokio::test]
async fn stopping_member_announces_the_end_of_connections_in_use() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let mut at_writer = Connection::open(&writer.uri).await;
    let mut at_standby = Connection::open(&standby.uri).await;
    for connection in [&mut at_writer, &mut at_standby] {
        assert!(!connection.config().await.contains("connection: close"), "no member stops");
    }
    tokio::join!(standby.stop(), at_standby.use_until_the_end());
    tokio::join!(writer.stop(), at_writer.use_until_the_end());
}
