//! Tests that a chunked list has the items of an equivalent `Vec`, and that its JSON does not
//! depend on the division into chunks.

use proptest::prelude::*;

use super::super::segmented_json::SegmentedJson;
use super::*;

/// An item that records whether it shares the JSON of its chunk.
#[derive(Debug, Clone)]
struct Number {
    id: i64,
    json: Option<Bytes>,
}

impl Number {
    fn new(id: i64) -> Self {
        Self { id, json: None }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Item for Number {
    fn id(&self) -> i64 {
        self.id
    }

    fn write(&self, out: &mut Vec<u8>) {
        let text = self.id.to_string();
        assert!(self.json.as_ref().is_none_or(|json| json == text.as_bytes()), "its own JSON");
        out.extend_from_slice(text.as_bytes());
    }

    fn with_json(&self, json: Bytes) -> Self {
        Self { id: self.id, json: Some(json) }
    }
}

/// Maximum number of items per chunk in these tests.
const MAX: usize = 4;

type Numbers = ChunkedList<Number, MAX>;

fn text_of(list: &Numbers) -> SegmentedJson {
    let mut out = SegmentedJsonWriter::default();
    list.write(&mut out);
    out.finish()
}

/// Checks the invariants of a list and its items.
fn check(list: &Numbers, expected: &[i64]) {
    let ids = |items: &mut dyn Iterator<Item = &Number>| items.map(|n| n.id).collect::<Vec<_>>();
    assert_eq!(ids(&mut list.iter()), expected);
    let mut reversed = ids(&mut list.iter().rev());
    reversed.reverse();
    assert_eq!(reversed, expected);
    assert_eq!(list.ids().collect::<Vec<_>>(), expected);
    assert_eq!(list.len(), expected.len());
    assert_eq!(list.is_empty(), expected.is_empty());
    assert_eq!(list.last().map(|number| number.id), expected.last().copied());
    let json = serde_json::to_vec(expected).expect("JSON");
    assert_eq!(text_of(list), Bytes::from(json));

    assert!(list.sealed.is_empty() || !list.open.is_empty(), "every sealed item has a comma");
    let mut sizes: Vec<_> = list.sealed.iter().map(|chunk| chunk.items.len()).collect();
    sizes.push(list.open.len());
    assert!(sizes.iter().all(|size| *size <= MAX), "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[0] + pair[1] > MAX), "{sizes:?}");
    for chunk in &list.sealed {
        assert_eq!(chunk.ids, chunk.items.iter().map(|number| number.id).collect::<Vec<_>>());
        assert_eq!(chunk.json, Chunk::new(chunk.json.text().clone()), "its own hash");
    }
}

fn list_of(numbers: &[i64]) -> Numbers {
    numbers.iter().map(|number| Number::new(*number)).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Push(i64),
    /// `Remove(rest, by)` removes the items whose ids have the remainder `rest` modulo `by`.
    Remove(i64, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (0..50i64).prop_map(Step::Push);
    let remove = (2..9i64).prop_flat_map(|by| (Just(by), 0..by));
    let remove = remove.prop_map(|(by, rest)| Step::Remove(by, rest));
    proptest::collection::vec(prop_oneof![9 => push, 1 => remove], 0..120)
}

proptest! {
    #[test]
    fn chunked_list_behaves_like_a_vec(steps in steps()) {
        let (mut list, mut expected) = (Numbers::new(), Vec::new());
        for step in steps {
            let (before, expected_before) = (list.clone(), expected.clone());
            match step {
                Step::Push(number) => {
                    list.push(Number::new(number));
                    expected.push(number);
                }
                Step::Remove(by, rest) => {
                    let mut visited = Vec::new();
                    list.retain_ids(|id| {
                        visited.push(id);
                        id % by != rest
                    });
                    prop_assert_eq!(&visited, &expected, "each once, in order");
                    expected.retain(|id| id % by != rest);
                }
            }
            check(&list, &expected);
            check(&before, &expected_before);
        }
        for id in 0..50 {
            prop_assert_eq!(list.find(id).is_some(), expected.contains(&id));
        }
        prop_assert_eq!(&list_of(&expected), &list);
    }

    #[test]
    fn unchanged_chunks_are_shared_between_versions(count in 1..100i64, removed in 0..100i64) {
        let list = list_of(&(0..count).collect::<Vec<_>>());
        let mut next = list.clone();
        next.push(Number::new(count));
        let kept = list.sealed.iter().zip(&next.sealed);
        prop_assert!(kept.clone().all(|(old, new)| Arc::ptr_eq(old, new)));
        prop_assert_eq!(kept.count(), list.sealed.len());

        let mut next = list.clone();
        next.retain_ids(|id| id != removed);
        let shared = |chunk: &&Arc<SealedChunk<Number>>| {
            next.sealed.iter().any(|other| Arc::ptr_eq(chunk, other))
        };
        let lost = list.sealed.len() - list.sealed.iter().filter(shared).count();
        prop_assert!(lost <= 2, "the chunk of the item, and a neighbor with which it is merged");
    }
}

#[test]
fn removals_merge_small_chunks() {
    let mut list = list_of(&(0..1000).collect::<Vec<_>>());
    for gone in (0..1000).filter(|id| id % 10 != 0) {
        list.retain_ids(|id| id != gone);
    }
    let expected: Vec<_> = (0..1000).filter(|id| id % 10 == 0).collect();
    check(&list, &expected);
}

#[test]
fn list_read_from_chunks_reuses_them() {
    let list = list_of(&(0..11).collect::<Vec<_>>());
    let text = text_of(&list);
    let chunks: Vec<_> = text.chunks().cloned().collect();
    let numbers = |range: std::ops::Range<i64>| range.map(Number::new).collect::<Vec<_>>();
    let read =
        Numbers::read_from([numbers(0..4), numbers(4..8)].into_iter().zip(&chunks), numbers(8..11));
    check(&read, &(0..11).collect::<Vec<_>>());
    let kept = text_of(&read).chunks().map(|chunk| chunk.text().as_ptr()).collect::<Vec<_>>();
    assert_eq!(kept, chunks.iter().map(|chunk| chunk.text().as_ptr()).collect::<Vec<_>>());

    // A chunk with different whitespace is rendered again.
    let spaced = Chunk::new("0, 1,2,3,".into());
    let read = Numbers::read_from([(numbers(0..4), &spaced)], numbers(4..5));
    check(&read, &[0, 1, 2, 3, 4]);
}
