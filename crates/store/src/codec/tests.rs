//! Documents survive a round trip, and corrupt bytes are errors.

use proptest::prelude::*;

use super::*;

/// Builds a document of these segments, every other one a chunk.
fn document(version: u64, parts: &[Vec<u8>]) -> Document {
    let segment = |(at, part): (usize, &Vec<u8>)| {
        let bytes = Bytes::copy_from_slice(part);
        if at % 2 == 0 { Segment::Inline(bytes) } else { Segment::Piece(Piece::new(bytes)) }
    };
    Document { version, text: Text::new(parts.iter().enumerate().map(segment).collect()) }
}

/// Returns the stored form of a document.
fn kept(document: &Document) -> (Vec<u8>, HashMap<PieceHash, Bytes>) {
    let pieces = document.text.pieces().map(|piece| {
        let text = PieceText(piece.text().clone()).encode();
        (piece.hash(), PieceText::decode(&text).expect("a piece").0)
    });
    (document.head().encode(), pieces.collect())
}

proptest! {
    #[test]
    fn a_document_comes_back_whole(
        version: u64,
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..9),
    ) {
        let document = document(version, &parts);
        let (head, pieces) = kept(&document);
        let head = Head::decode(&head).expect("a head");
        prop_assert_eq!(head.pieces().collect::<Vec<_>>(),
            document.text.pieces().map(Piece::hash).collect::<Vec<_>>());
        let read = head.complete(&pieces).expect("every piece is there");
        prop_assert_eq!(read.text.segments(), document.text.segments());
        prop_assert_eq!(&read, &document);
        for gone in pieces.keys() {
            let mut pieces = pieces.clone();
            pieces.remove(gone);
            prop_assert_eq!(head.complete(&pieces), Err(*gone));
            pieces.insert(*gone, Bytes::new());
            prop_assert_eq!(head.complete(&pieces), Err(*gone), "of another length");
        }
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(bytes: Vec<u8>, at: usize, flip in 1..=u8::MAX) {
        let _ = Head::decode(&bytes);
        let _ = PieceText::decode(&bytes);
        let (mut head, pieces) = kept(&document(7, &[b"{\"a\":[".to_vec(), b"1,".to_vec(), b"2]}".to_vec()]));
        let at = at % head.len();
        head[at] ^= flip;
        if let Ok(head) = Head::decode(&head) {
            let _ = head.complete(&pieces);
        }
    }
}

#[test]
fn broken_bytes_are_an_error() {
    let whole = document(7, &[b"{".to_vec(), b"piece".to_vec(), b"}".to_vec()]);
    let (head, _) = kept(&whole);
    let piece = PieceText("text".into()).encode();
    for cut in 0..head.len() {
        assert!(Head::decode(&head[..cut]).is_err(), "cut at {cut}");
    }
    for cut in 0..piece.len() {
        assert!(PieceText::decode(&piece[..cut]).is_err(), "cut at {cut}");
    }
    let empty = Document { version: 1, text: Text::new(Vec::new()) };
    assert!(Head::decode(&empty.head().encode()).is_err());
    assert!(decode_json::<u32>(b"").is_err());
    assert!(decode_json::<u32>(b"\x021").is_err());
    assert_eq!(decode_json::<u32>(b"\x011").ok(), Some(1));
}

#[test]
fn a_document_of_the_first_version_is_one_segment() {
    let mut bytes = vec![WHOLE_DOCUMENT_VERSION];
    bytes.extend_from_slice(&7_u64.to_be_bytes());
    bytes.extend_from_slice(&compress(b"{}"));
    let head = Head::decode(&bytes).expect("a head");
    let read = head.complete(&HashMap::new()).expect("there are no pieces");
    assert_eq!(read, Document { version: 7, text: "{}".into() });
    for cut in 0..bytes.len() {
        assert!(Head::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_length_that_is_out_of_bounds_is_an_error() {
    let head = |lengths: &[u32]| {
        let mut bytes = vec![DOCUMENT_VERSION];
        bytes.extend_from_slice(&7_u64.to_be_bytes());
        bytes.extend_from_slice(&length(lengths.len()));
        for length in lengths {
            bytes.push(PIECE_MARK);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&[0; 16]);
        }
        bytes.extend_from_slice(&compress(b""));
        Head::decode(&bytes)
    };
    assert!(head(&[1 << 30]).is_ok());
    assert!(head(&[1 << 30, 1]).is_err());
    assert!(head(&[u32::MAX; 9]).is_err());
}
