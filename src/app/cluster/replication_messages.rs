//! The messages with which the writer sends its changes to replicas, in the format of Protocol
//! Buffers. Each message follows its length, in 4 bytes.

use axum::body::Bytes;
use bytes::{Buf, BufMut, BytesMut};
use prost::Message;
use uuid::Uuid;

use slateberg_base::error_chain::Cause;
use slateberg_store::keys::PublicationKey;
use slateberg_store::replication::{ReplicationEvent, Row, RowGroup};

/// Maximum size of a message. A message with more than one transaction is much smaller.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Size of the length of a message.
const LENGTH_BYTES: usize = 4;

/// Changes of the writer. Apply the groups first, then the published versions.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Changes {
    /// The start of the subscription. Only the first message has it.
    #[prost(message, optional, tag = "1")]
    pub(super) start: Option<Start>,
    /// Durable transactions, in the order of their sequence numbers.
    #[prost(message, repeated, tag = "2")]
    pub(super) groups: Vec<Group>,
    /// Versions whose metadata files exist.
    #[prost(message, repeated, tag = "3")]
    pub(super) published: Vec<Version>,
    /// All transactions up to this sequence number have been sent. 0 if it has not changed.
    #[prost(uint64, tag = "4")]
    pub(super) released: u64,
    /// The id of the writer's manifest.
    #[prost(uint64, tag = "5")]
    pub(super) manifest_id: u64,
    /// The answer to the newest question of the replica.
    #[prost(message, optional, tag = "6")]
    pub(super) position: Option<Position>,
    /// The hash of the policies in force. Empty if the writer has an older version.
    #[prost(string, tag = "7")]
    pub(super) policy_hash: String,
}

/// The state of the writer that reads of a replica must see.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Position {
    /// The number of the question.
    #[prost(uint64, tag = "1")]
    pub(super) question: u64,
    /// All changes that were acknowledged or visible have this sequence number or a smaller one.
    #[prost(uint64, tag = "2")]
    pub(super) sequence: u64,
    /// The horizon of the change feed.
    #[prost(uint64, tag = "3")]
    pub(super) change_horizon: u64,
    /// Whether the lease of the writer is valid. Otherwise, another member may be the writer.
    #[prost(bool, tag = "4")]
    pub(super) is_valid: bool,
}

/// The start of a subscription.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Start {
    /// Versions whose metadata files may be missing, although their rows are in the bucket.
    #[prost(message, repeated, tag = "1")]
    pub(super) unpublished: Vec<Version>,
}

/// A transaction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Group {
    #[prost(uint64, tag = "1")]
    sequence: u64,
    #[prost(message, repeated, tag = "2")]
    rows: Vec<ChangedRow>,
}

#[derive(Clone, PartialEq, Message)]
struct ChangedRow {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    /// `None` if the record was deleted.
    #[prost(bytes = "bytes", optional, tag = "2")]
    value: Option<Bytes>,
}

/// A version of a table or view.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Version {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(uint64, tag = "2")]
    version: u64,
}

impl Changes {
    /// Adds an event.
    pub(super) fn add(&mut self, event: ReplicationEvent) {
        match event {
            ReplicationEvent::Rows(group) => self.groups.push(Group::of(&group)),
            ReplicationEvent::Released(sequence) => self.released = sequence,
            ReplicationEvent::Published(key) => self.published.push(Version::of(key)),
        }
    }

    /// Returns the message after its length.
    pub(super) fn to_bytes(&self) -> Bytes {
        let length = self.encoded_len();
        let mut bytes = BytesMut::with_capacity(LENGTH_BYTES + length);
        // A message exceeds 4 GiB only if a transaction does.
        bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        self.encode_raw(&mut bytes);
        bytes.freeze()
    }

    /// Removes the first message from received bytes. `None` if it has not arrived completely.
    pub(super) fn take(received: &mut BytesMut) -> Result<Option<Self>, Cause> {
        let Some((length, _)) = received.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Cause::new(format!("a message of the writer has {length} bytes")));
        }
        if received.len() < LENGTH_BYTES + length {
            received.reserve(LENGTH_BYTES + length - received.len());
            return Ok(None);
        }
        received.advance(LENGTH_BYTES);
        Self::decode(received.split_to(length).freeze()).map(Some).map_err(Cause::new)
    }
}

impl Group {
    fn of(group: &RowGroup) -> Self {
        let rows = group.rows.iter();
        let row = |Row { key, value }: &Row| ChangedRow { key: key.clone(), value: value.clone() };
        Self { sequence: group.sequence, rows: rows.map(row).collect() }
    }

    /// Returns the rows of the transaction.
    pub(super) fn into_rows(self) -> RowGroup {
        let row = |ChangedRow { key, value }| Row { key, value };
        RowGroup { sequence: self.sequence, rows: self.rows.into_iter().map(row).collect() }
    }
}

impl Version {
    /// Creates the message for a version.
    pub(super) fn of(key: PublicationKey) -> Self {
        Self { id: Bytes::copy_from_slice(key.id.as_bytes()), version: key.version }
    }

    /// Returns the version. `None` if the id is invalid.
    pub(super) fn key(&self) -> Option<PublicationKey> {
        let id = Uuid::from_slice(&self.id).ok()?;
        Some(PublicationKey { id, version: self.version })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn changes() -> Changes {
        let key = PublicationKey { id: Uuid::from_u128(7), version: 3 };
        let row = |key: &'static [u8], value| Row { key: Bytes::from_static(key), value };
        let rows = vec![row(b"put", Some(Bytes::new())), row(b"deleted", None)];
        let mut changes = Changes { manifest_id: 9, ..Changes::default() };
        changes.add(ReplicationEvent::Rows(Arc::new(RowGroup { sequence: 5, rows })));
        changes.add(ReplicationEvent::Published(key));
        changes.add(ReplicationEvent::Released(6));
        changes
    }

    #[test]
    fn messages_are_read_in_parts() {
        let sent = [changes().to_bytes(), Changes::default().to_bytes()].concat();
        for part in [1, 3, sent.len()] {
            let (mut received, mut read) = (BytesMut::new(), Vec::new());
            for bytes in sent.chunks(part) {
                received.extend_from_slice(bytes);
                while let Some(message) = Changes::take(&mut received).expect("it is valid") {
                    read.push(message);
                }
            }
            assert_eq!(read, [changes(), Changes::default()]);
        }
    }

    #[test]
    fn rows_and_versions_survive_the_transport() {
        let changes = changes();
        let group = changes.groups[0].clone().into_rows();
        assert_eq!(group.sequence, 5);
        assert_eq!(group.rows[0].value.as_deref(), Some(&b""[..]));
        assert_eq!(group.rows[1].value, None);
        let key = changes.published[0].key().expect("the id is valid");
        assert_eq!((key.id, key.version), (Uuid::from_u128(7), 3));
    }

    #[test]
    fn invalid_messages_are_rejected() {
        let too_long = u32::MAX.to_be_bytes();
        let garbage = [&2u32.to_be_bytes()[..], &[0xff, 0xff]].concat();
        for received in [&too_long[..], &garbage] {
            assert!(Changes::take(&mut BytesMut::from(received)).is_err(), "{received:?}");
        }
    }
}
