//! [`Coding`]: compression of response bodies.

use std::io::Write;

use axum::http::HeaderValue;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The compression levels. Level 1 shrinks JSON to about a sixth of its size. Higher levels take
/// much more time and save few bytes.
const GZIP_LEVEL: u32 = 1;
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

    /// Encodes the concatenation of these parts.
    pub fn encode(self, parts: &[Bytes]) -> Bytes {
        let encoded = match self {
            Self::Identity => parts.concat(),
            Self::Gzip => gzip(parts),
            Self::Zstd => zstd(parts),
        };
        encoded.into()
    }
}

fn gzip(parts: &[Bytes]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    parts.iter().for_each(|part| encoder.write_all(part).expect(IN_MEMORY));
    encoder.finish().expect(IN_MEMORY)
}

fn zstd(parts: &[Bytes]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).expect("the level exists");
    parts.iter().for_each(|part| encoder.write_all(part).expect(IN_MEMORY));
    encoder.finish().expect(IN_MEMORY)
}

const IN_MEMORY: &str = "writing into memory cannot fail";
