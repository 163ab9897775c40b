//! Connections that are used again: a request that is refused does not spoil the next one.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::app::TestApp;
use crate::support::served::Served;

/// A connection on which requests are written by hand.
struct Wire(TcpStream);

impl Wire {
    async fn to(server: &Served) -> Self {
        let address = server.uri.strip_prefix("http://").expect("it is not encrypted");
        Self(TcpStream::connect(address).await.expect("it listens"))
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the connection is there");
    }

    /// Head and body of a `POST`, as many clients send them: one after the other.
    async fn post(&mut self, path: &str, length: usize) {
        self.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"))
            .await;
        sleep(Duration::from_millis(100)).await;
        self.send(" ".repeat(length)).await;
    }

    /// The status and the head of the next answer.
    async fn answer(&mut self) -> (u16, String) {
        let mut read = Vec::new();
        let head = loop {
            let mut byte = [0];
            let got = timeout(Duration::from_secs(20), self.0.read(&mut byte)).await;
            assert_eq!(got.expect("in time").expect("the connection is there"), 1, "it ended");
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

async fn server() -> Served {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.body_bytes_max = 10_000;
    });
    Served::start(app.await).await
}

#[tokio::test]
async fn a_connection_is_good_after_a_request_that_was_refused_unread() {
    let server = server().await;
    let mut wire = Wire::to(&server).await;
    for _ in 0..3 {
        wire.post("/v1/namespaces", 5_000).await;
        let (status, head) = wire.answer().await;
        assert_eq!(status, 401, "{head}");
        assert!(!head.contains("connection: close"), "{head}");
    }
    // Nor does it matter who has refused it: here, a route that there is not.
    let credential = format!("authorization: Bearer {}\r\n", server.app.credential());
    for (path, length, refused) in [("/nothing", 5_000, 404), ("/v1/namespaces", 20_000, 413)] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n");
        wire.send(format!("{head}{credential}\r\n")).await;
        sleep(Duration::from_millis(100)).await;
        wire.send(" ".repeat(length)).await;
        assert_eq!(wire.answer().await.0, refused);
    }
    wire.send(format!("GET /v1/config HTTP/1.1\r\nhost: x\r\n{credential}\r\n")).await;
    assert_eq!(wire.answer().await.0, 200);
}

#[tokio::test]
async fn who_sends_much_or_does_not_come_to_an_end_is_told_that_the_connection_ends() {
    let server = server().await;
    let head = "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\n";
    for rest in ["content-length: 2000000\r\n\r\n", "content-length: 5000\r\n\r\nslow"] {
        let mut wire = Wire::to(&server).await;
        wire.send(format!("{head}{rest}")).await;
        let (status, head) = wire.answer().await;
        assert_eq!(status, 401);
        assert!(head.contains("connection: close"), "{head}");
    }
    // A client that asks first is told before it has sent anything.
    let mut wire = Wire::to(&server).await;
    wire.send(format!("{head}content-length: 5000\r\nexpect: 100-continue\r\n\r\n")).await;
    assert_eq!(wire.answer().await.0, 401);
}
