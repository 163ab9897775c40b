//! [`CheckedRequest`]: a request that may be signed.

/// A checked request in canonical form.
#[derive(Debug)]
pub struct CheckedRequest {
    pub(super) method: &'static str,
    pub(super) uri: String,
    /// Signed headers, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) payload: Payload,
    pub(super) cacheable: bool,
    /// Bucket and key of the object, separated by a slash, if the request only reads an object.
    pub(super) read_object: Option<String>,
}

impl CheckedRequest {
    /// Returns the bucket and the key of the object, separated by a slash, if the request only reads
    /// one object.
    pub fn read_object(&self) -> Option<&str> {
        self.read_object.as_deref()
    }
}

/// The part of a request's body that is signed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// No part of the body is signed.
    Unsigned,
    /// No part of the body is signed. After the body, the client sends a trailer with a checksum of
    /// the body (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`).
    UnsignedWithTrailer,
    /// The SHA-256 that the client sends, in hexadecimal.
    Hash(String),
    /// The whole body.
    Text(String),
}
