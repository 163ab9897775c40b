//! Gzip of segmented documents. Each chunk is compressed at most once, for all versions of the
//! document.
//!
//! The result has a single gzip member, because some clients ignore all members but the first.

use bytes::Bytes;

use super::deflate::Deflater;
use super::segmented_json::SegmentedJson;

/// At most this number of bytes should be compressed on a thread that also executes other requests,
/// because that takes less than a millisecond.
pub const INLINE_BYTES_MAX: usize = 64 << 10;

/// The header of a gzip member (RFC 1952): magic number, deflate, no flags, no time, no extra
/// flags, unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A final block of deflate without content.
const FINAL_BLOCK: [u8; 2] = [3, 0];

/// Compresses a document and the bytes around it into one gzip member, and returns its parts. The
/// part of the document is shared by all members that contain it.
pub fn gzip(before: &[u8], document: &SegmentedJson, after: &[u8]) -> Vec<Bytes> {
    let mut deflater = Deflater::new();
    let [head, tail] = [before, after].map(|bytes| deflater.deflate(bytes));
    let body = document.deflated_by(&mut deflater);
    let mut checksum = head.checksum;
    checksum.combine(&body.checksum);
    checksum.combine(&tail.checksum);
    // The format has the length modulo 2^32.
    let len = (before.len() + document.len() + after.len()) as u32;
    let trailer = [checksum.finalize().to_le_bytes(), len.to_le_bytes()].concat();
    vec![
        [&HEADER[..], &head.bytes].concat().into(),
        body.bytes.clone(),
        [&tail.bytes[..], &FINAL_BLOCK, &trailer].concat().into(),
    ]
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::bufread::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::segmented_json::{Chunk, Segment};

    /// Decompresses the only member of a file.
    fn decompressed(parts: &[Bytes]) -> Vec<u8> {
        let file = parts.concat();
        let mut decoder = GzDecoder::new(&file[..]);
        let mut text = Vec::new();
        decoder.read_to_end(&mut text).expect("it is gzip");
        assert!(decoder.into_inner().is_empty(), "there is only one member");
        text
    }

    fn segment(is_chunk: bool, text: Vec<u8>) -> Segment {
        if is_chunk {
            Segment::Chunk(Chunk::new(text.into()))
        } else {
            Segment::Inline(text.into())
        }
    }

    #[test]
    fn chunk_is_compressed_once_for_all_versions() {
        let chunk = Chunk::new(vec![b'x'; 100_000].into());
        let version = |inline: &'static str| {
            let segments = vec![Segment::Inline(inline.into()), Segment::Chunk(chunk.clone())];
            SegmentedJson::new(segments)
        };
        let (first, second) = (version("["), version("{}"));
        assert_eq!(first.bytes_to_compress(), 100_001);
        assert!(gzip(b"", &first, b"").concat().len() < 2000);
        assert_eq!((first.bytes_to_compress(), second.bytes_to_compress()), (0, 2));
        assert_eq!(decompressed(&gzip(b"", &second, b""))[..3], *b"{}x");
    }

    #[test]
    fn members_with_the_same_document_share_its_compressed_form() {
        let document = SegmentedJson::from("[1,2]");
        let (file, response) = (gzip(b"", &document, b""), gzip(b"{", &document.clone(), b"}"));
        assert_eq!(file[1].as_ptr(), response[1].as_ptr());
        assert_eq!(
            (decompressed(&file), decompressed(&response)),
            ("[1,2]".into(), "{[1,2]}".into())
        );
    }

    #[test]
    fn empty_document_is_a_valid_member() {
        let empty = SegmentedJson::new(vec![segment(true, Vec::new())]);
        assert!(decompressed(&gzip(b"", &empty, b"")).is_empty());
    }

    /// Returns pseudo-random bytes of an alphabet of 64.
    fn base64_like(seed: u32, len: usize) -> Vec<u8> {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let states = std::iter::successors(Some(seed), next);
        states.map(|state| b' ' + (state >> 26) as u8).take(len).collect()
    }

    #[test]
    fn long_segments_of_any_length_are_compressed_completely() {
        for len in (0..150_000).step_by(997) {
            let text = base64_like(7, len);
            let document = SegmentedJson::new(vec![segment(false, text.clone())]);
            assert!(decompressed(&gzip(b"", &document, b"")) == text, "{len} bytes");
        }
    }

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            // Similar to JSON, so that a segment would match bytes of the segments before it.
            "(\\{\"snapshot-id\":[0-9]{1,3}\\},){0,60}".prop_map(String::into_bytes),
            // Random bytes, which deflate stores.
            prop::collection::vec(any::<u8>(), 0..3000),
            // Longer than the blocks and the window of deflate.
            (any::<u8>(), 0..200_000usize).prop_map(|(byte, len)| vec![byte; len]),
            // Long, and compressed to about three quarters.
            (any::<u32>(), 0..200_000usize).prop_map(|(seed, len)| base64_like(seed, len)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_segments_are_one_member_with_their_bytes(
            segments in prop::collection::vec((any::<bool>(), texts()), 0..8),
            (before, after) in (texts(), texts()),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let segments: Vec<_> =
                segments.into_iter().map(|(is_chunk, text)| segment(is_chunk, text)).collect();
            // The second document has the same chunks in any order.
            let shuffled: Vec<_> = order
                .iter()
                .filter(|_| !segments.is_empty())
                .map(|index| index.get(&segments).clone())
                .collect();
            for document in [segments, shuffled].map(SegmentedJson::new) {
                let text = [&before[..], &document.to_bytes(), &after].concat();
                prop_assert_eq!(decompressed(&gzip(&before, &document, &after)), text);
            }
        }
    }
}
