//! [`Coding`]: compression of response bodies.

use std::io::Write;

use axum::http::HeaderValue;
use bytes::Bytes;

use slateberg_model::gzip::gzip;
use slateberg_model::segmented_json::SegmentedJson;

/// Level 1 shrinks JSON to about a sixth of its size. Higher levels take much more time and save
/// few bytes.
const ZSTD_LEVEL: i32 = 1;

/// A supported content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Uncompressed.
    Identity,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// The codings that a client prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreferredCodings {
    /// For bodies without chunks. If the client accepts gzip and zstd equally, this is zstd, which
    /// costs client and server less.
    pub inline: Coding,
    /// For bodies with chunks. If the client accepts gzip and zstd equally, this is gzip, because
    /// chunks are compressed with gzip only once for all bodies.
    pub chunked: Coding,
}

impl PreferredCodings {
    /// Whether the client prefers an uncompressed body.
    pub fn are_identity(self) -> bool {
        self.inline == Coding::Identity
    }

    /// Returns the coding for this body.
    pub fn for_body(self, body: &PlainBody) -> Coding {
        if body.document.has_chunks() { self.chunked } else { self.inline }
    }
}

/// An uncompressed body: a document between other JSON.
#[derive(Debug, Clone)]
pub struct PlainBody {
    /// The JSON before the document.
    pub head: Bytes,
    /// The document.
    pub document: SegmentedJson,
    /// The JSON after the document.
    pub tail: Bytes,
}

impl PlainBody {
    /// The length of the body.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.document.len() + self.tail.len()
    }

    fn parts(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.head).chain(self.document.parts()).chain([&self.tail])
    }
}

impl From<Bytes> for PlainBody {
    fn from(body: Bytes) -> Self {
        Self { head: Bytes::new(), document: body.into(), tail: Bytes::new() }
    }
}

impl Coding {
    /// All codings.
    pub const ALL: [Self; 3] = [Self::Identity, Self::Gzip, Self::Zstd];

    /// The value of `Content-Encoding`. `None` for an uncompressed body.
    pub fn header(self) -> Option<HeaderValue> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }

    /// Encodes a body. Returns the consecutive parts of the result.
    pub fn encode(self, body: &PlainBody) -> Vec<Bytes> {
        match self {
            Self::Identity => body.parts().cloned().collect(),
            Self::Gzip => gzip(&body.head, &body.document, &body.tail),
            Self::Zstd => vec![zstd(body).into()],
        }
    }

    /// Returns the number of bytes that [`Coding::encode`] would have to compress.
    pub fn bytes_to_compress(self, body: &PlainBody) -> usize {
        match self {
            Self::Identity => 0,
            Self::Gzip => body.head.len() + body.document.bytes_to_compress() + body.tail.len(),
            Self::Zstd => body.bytes(),
        }
    }
}

fn zstd(body: &PlainBody) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).expect("the level exists");
    body.parts().for_each(|part| encoder.write_all(part).expect(IN_MEMORY));
    encoder.finish().expect(IN_MEMORY)
}

const IN_MEMORY: &str = "writing into memory cannot fail";
