//! Documents survive a round trip, and corrupt bytes cause errors.

use proptest::prelude::*;

use super::*;

/// Builds a document of these segments. Every other segment is a chunk.
fn document(version: u64, parts: &[Vec<u8>]) -> Document {
    let segment = |(at, part): (usize, &Vec<u8>)| {
        let bytes = Bytes::copy_from_slice(part);
        if at % 2 == 0 { Segment::Inline(bytes) } else { Segment::Chunk(Chunk::new(bytes)) }
    };
    Document { version, text: SegmentedJson::new(parts.iter().enumerate().map(segment).collect()) }
}

/// Returns the stored form of a document.
fn stored(document: &Document) -> (Vec<u8>, HashMap<ChunkHash, Bytes>) {
    let chunks = document.text.chunks().map(|chunk| {
        let text = ChunkBytes(chunk.text().clone()).encode();
        (chunk.hash(), ChunkBytes::decode(&text).expect("a chunk").0)
    });
    (document.head().encode(), chunks.collect())
}

proptest! {
    #[test]
    fn document_round_trips(
        version: u64,
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..9),
    ) {
        let document = document(version, &parts);
        let (head, chunks) = stored(&document);
        let head = DocumentHead::decode(&head).expect("a head");
        prop_assert_eq!(head.chunks().collect::<Vec<_>>(),
            document.text.chunks().map(Chunk::hash).collect::<Vec<_>>());
        let read = head.complete(&chunks).expect("every chunk is there");
        prop_assert_eq!(read.text.segments(), document.text.segments());
        prop_assert_eq!(&read, &document);
        for gone in chunks.keys() {
            let mut chunks = chunks.clone();
            chunks.remove(gone);
            prop_assert_eq!(head.complete(&chunks), Err(*gone));
            chunks.insert(*gone, Bytes::new());
            prop_assert_eq!(head.complete(&chunks), Err(*gone), "the chunk has another length");
        }
    }

    #[test]
    fn random_or_flipped_bytes_never_panic(bytes: Vec<u8>, at: usize, flip in 1..=u8::MAX) {
        let _ = DocumentHead::decode(&bytes);
        let _ = ChunkBytes::decode(&bytes);
        let (mut head, chunks) = stored(&document(7, &[b"{\"a\":[".to_vec(), b"1,".to_vec(), b"2]}".to_vec()]));
        let at = at % head.len();
        head[at] ^= flip;
        if let Ok(head) = DocumentHead::decode(&head) {
            let _ = head.complete(&chunks);
        }
    }
}

#[test]
fn truncated_bytes_are_rejected() {
    let whole = document(7, &[b"{".to_vec(), b"chunk".to_vec(), b"}".to_vec()]);
    let (head, _) = stored(&whole);
    let chunk = ChunkBytes("text".into()).encode();
    for cut in 0..head.len() {
        assert!(DocumentHead::decode(&head[..cut]).is_err(), "cut at {cut}");
    }
    for cut in 0..chunk.len() {
        assert!(ChunkBytes::decode(&chunk[..cut]).is_err(), "cut at {cut}");
    }
    let empty = Document { version: 1, text: SegmentedJson::new(Vec::new()) };
    assert!(DocumentHead::decode(&empty.head().encode()).is_err());
    assert!(decode_json::<u32>(b"").is_err());
    assert!(decode_json::<u32>(b"\x021").is_err());
    assert_eq!(decode_json::<u32>(b"\x011").ok(), Some(1));
}

#[test]
fn document_of_version_1_is_one_segment() {
    let mut bytes = vec![WHOLE_DOCUMENT_VERSION];
    bytes.extend_from_slice(&7_u64.to_be_bytes());
    bytes.extend_from_slice(&compression::compress(b"{}"));
    let head = DocumentHead::decode(&bytes).expect("a head");
    let read = head.complete(&HashMap::new()).expect("there are no chunks");
    assert_eq!(read, Document { version: 7, text: "{}".into() });
    for cut in 0..bytes.len() {
        assert!(DocumentHead::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn excessive_length_is_rejected() {
    let head = |lengths: &[u32]| {
        let mut bytes = vec![DOCUMENT_VERSION];
        bytes.extend_from_slice(&7_u64.to_be_bytes());
        bytes.extend_from_slice(&length(lengths.len()));
        for length in lengths {
            bytes.push(CHUNK_TAG);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&[0; 16]);
        }
        bytes.extend_from_slice(&compression::compress(b""));
        DocumentHead::decode(&bytes)
    };
    assert!(head(&[1 << 30]).is_ok());
    assert!(head(&[1 << 30, 1]).is_err());
    assert!(head(&[u32::MAX; 9]).is_err());
}
