//! Addresses on which a server listens.

use std::net::TcpListener;
use std::time::Duration;

use slateberg::app::run;

use crate::support::app::memory_settings;

#[tokio::test]
async fn start_waits_until_its_address_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut settings = memory_settings();
    settings.server.listen = taken.local_addr().expect("an address");
    let release = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(taken);
    };
    let (bound, ()) = tokio::join!(run::bind(&settings), release);
    let bound = bound.map_err(|error| error.to_string()).expect("the address is free");
    assert_eq!(bound.address, settings.server.listen);
}

#[tokio::test]
async fn start_fails_with_the_address_that_is_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let mut settings = memory_settings();
    settings.server.listen = address;
    let error = run::bind(&settings).await.err().expect("it is in use").to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {address}: Address already in use")),
        "{error}"
    );
    assert!(error.contains("server.listen"), "{error}");
}
