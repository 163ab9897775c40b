//! Members that stop announce the end of the connections of their clients.

use std::sync::Arc;

use crate::member::{member_settings, writer_and_standby};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, Verb};
use crate::support::raw_connection::RawConnection;

const REQUEST: &str = "GET /v1/config HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends a request, and returns whether the response announces the end of the connection.
async fn is_last(connection: &mut RawConnection) -> bool {
    connection.send(REQUEST).await;
    let (_, head) = connection.read_response().await;
    head.contains("connection: close")
}

/// Sends requests until a response announces the end of the connection, like a client or a proxy that
/// uses its connection all the time.
async fn use_until_the_end(mut connection: RawConnection) {
    while !is_last(&mut connection).await {}
    connection.expect_end().await;
}

#[tokio::test]
async fn stopping_member_announces_the_end_of_connections_in_use() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let mut at_writer = RawConnection::connect_to_uri(&writer.uri).await;
    let mut at_standby = RawConnection::connect_to_uri(&standby.uri).await;
    for connection in [&mut at_writer, &mut at_standby] {
        assert!(!is_last(connection).await, "no member stops");
    }
    tokio::join!(standby.stop(), use_until_the_end(at_standby));
    tokio::join!(writer.stop(), use_until_the_end(at_writer));
}

#[tokio::test]
async fn writer_stops_although_its_store_cannot_be_closed() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    assert_eq!(writer.create_namespace("acknowledged").await, 200);
    let faults = Arc::clone(&writer.faults);
    // Everything but the records of the cluster and the log.
    for part in ["manifest", "compacted"] {
        faults.inject(Verb::Any, part, Fault::Hang);
    }
    writer.stop().await;
    standby.wait_for_role("writer").await;
    assert_eq!(standby.set_property("acknowledged", "k", "v").await, 200);
}
