//! [`Coding`]: how an answer's body is compressed on its way.

use std::io::Write;

use axum::http::HeaderValue;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The level of both: JSON gets to about a sixth by it, and higher ones cost more time than bytes.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// A content coding that slateberg knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As it is.
    Identity,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

impl Coding {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Identity, Self::Gzip, Self::Zstd];

    /// The header `Content-Encoding`; none for a body as it is.
    pub fn header(self) -> Option<HeaderValue> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }

    /// The body that these parts make, one behind the other.
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
