//! [`BlockIndex`]: the blocks of sorted names that can contain a word.
//!
//! A block is 64 successive names. A *gram* is a sequence of up to three bytes. The index contains
//! the blocks with each gram of three bytes, and the blocks in which a word of a name starts with
//! each gram of one to three bytes. A search reads only the names in blocks with all grams of a
//! word. Successive names often begin alike, so a block has far fewer grams than its names together.

use hashbrown::HashTable;

use super::bits::Bits;
use super::varint;

/// Number of names in a block. The bits of a number refer to the names of a block.
pub(super) const BLOCK_NAMES: usize = u64::BITS as usize;
/// Maximum length of a gram, in bytes.
const GRAM_BYTES: usize = 3;
/// Maximum number of grams of a word that a search reads: those in the fewest blocks.
const READ_GRAMS_MAX: usize = 8;

/// A gram with its length, and whether a word of the name starts with it.
type Gram = u32;

fn gram(bytes: &[u8], is_start: bool) -> Gram {
    let packed = bytes.iter().fold(0, |packed, byte| packed << 8 | Gram::from(*byte));
    // The length has two bits.
    packed | (bytes.len() as Gram) << 24 | Gram::from(is_start) << 26
}

/// Whether a word of the name, which is UTF-8, starts at an offset: the character before it is
/// neither a letter nor a digit.
pub(super) fn is_word_start(name: &[u8], at: usize) -> bool {
    let Some(last) = at.checked_sub(1) else { return true };
    is_separator(name[last]).unwrap_or_else(|| {
        // The bytes of a character after the first one begin with the bits 10.
        let first = name[..at].iter().rposition(|byte| byte & 0xC0 != 0x80).unwrap_or_default();
        let before = std::str::from_utf8(&name[first..at]).unwrap_or_default();
        !before.contains(char::is_alphanumeric)
    })
}

/// Whether the last byte of a character shows that it is neither a letter nor a digit. `None` if
/// the other bytes decide.
fn is_separator(last: u8) -> Option<bool> {
    last.is_ascii().then(|| !last.is_ascii_alphanumeric())
}

/// The blocks with each gram. See the [module](self).
#[derive(Default)]
pub(super) struct BlockIndex {
    blocks: usize,
    /// The grams, in ascending order, and the end of the blocks of each gram in `postings`.
    grams: Vec<(Gram, u32)>,
    /// The differences between the ascending numbers of the blocks.
    postings: Vec<u8>,
}

/// The blocks of a gram while the index is built.
struct GramBlocks {
    gram: Gram,
    /// The number after that of the last block.
    next: u32,
    postings: Vec<u8>,
}

impl BlockIndex {
    /// Builds the index of sorted, folded names.
    pub(super) fn build<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut builder = Builder::default();
        let (mut count, mut previous) = (0, "");
        for name in names {
            let is_first = count % BLOCK_NAMES == 0;
            // The block contains the grams that this name shares with the name before it.
            let known = if is_first { 0 } else { common_bytes(previous, name) };
            // The number of names is checked when a name is added.
            builder.add(name, known, (count / BLOCK_NAMES) as u32);
            (count, previous) = (count + 1, name);
        }
        let mut found = builder.found;
        found.sort_unstable_by_key(|it| it.gram);
        let mut index = Self { blocks: count.div_ceil(BLOCK_NAMES), ..Self::default() };
        index.grams.reserve_exact(found.len());
        index.postings.reserve_exact(found.iter().map(|it| it.postings.len()).sum());
        for GramBlocks { gram, postings, .. } in found {
            index.postings.extend_from_slice(&postings);
            index.grams.push((gram, index.postings.len() as u32));
        }
        index
    }

    /// Returns the number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.grams.capacity() * size_of::<(Gram, u32)>() + self.postings.capacity()
    }

    /// Returns the blocks that can contain a text: all blocks with the text, and perhaps others.
    pub(super) fn blocks_with(&self, text: &str) -> Bits {
        self.blocks_with_grams(text.as_bytes().windows(GRAM_BYTES).map(|it| gram(it, false)))
    }

    /// Returns the blocks in which a word of a name can start with a text.
    pub(super) fn blocks_with_start(&self, text: &str) -> Bits {
        let bytes = text.as_bytes();
        let start = gram(&bytes[..bytes.len().min(GRAM_BYTES)], true);
        let others = bytes.windows(GRAM_BYTES).skip(1).map(|it| gram(it, false));
        self.blocks_with_grams([start].into_iter().chain(others))
    }

    fn blocks_with_grams(&self, grams: impl Iterator<Item = Gram>) -> Bits {
        let mut postings: Vec<_> = grams.map(|gram| self.postings_of(gram)).collect();
        postings.sort_unstable_by_key(|postings| postings.len());
        postings.dedup();
        let mut common: Option<Bits> = None;
        for postings in postings.into_iter().take(READ_GRAMS_MAX) {
            let mut blocks = Bits::new(self.blocks);
            let mut next = 0;
            for difference in varint::decode(postings) {
                let block = next + difference;
                blocks.insert(block);
                next = block + 1;
            }
            common = Some(match common {
                None => blocks,
                Some(common) => common.and(&blocks),
            });
        }
        common.unwrap_or_else(|| Bits::all(self.blocks))
    }

    fn postings_of(&self, gram: Gram) -> &[u8] {
        let Ok(at) = self.grams.binary_search_by_key(&gram, |(gram, _)| *gram) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.grams[before].1);
        &self.postings[start as usize..self.grams[at].1 as usize]
    }
}

#[derive(Default)]
struct Builder {
    found: Vec<GramBlocks>,
    by_gram: HashTable<u32>,
}

impl Builder {
    /// Adds the grams of a name that end after its first `known` bytes.
    fn add(&mut self, name: &str, known: usize, block: u32) {
        let bytes = name.as_bytes();
        for at in known.saturating_sub(GRAM_BYTES - 1)..bytes.len() {
            let longest = (bytes.len() - at).min(GRAM_BYTES);
            if longest == GRAM_BYTES {
                self.add_gram(gram(&bytes[at..at + GRAM_BYTES], false), block);
            }
            if name.is_char_boundary(at) && is_word_start(name.as_bytes(), at) {
                for len in 1..=longest {
                    self.add_gram(gram(&bytes[at..at + len], true), block);
                }
            }
        }
    }

    fn add_gram(&mut self, gram: Gram, block: u32) {
        let Self { found, by_gram } = self;
        let hash = |gram: Gram| u64::from(gram).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let entry = by_gram.entry(
            hash(gram),
            |at| found[*at as usize].gram == gram,
            |at| hash(found[*at as usize].gram),
        );
        let at = *entry
            .or_insert_with(|| {
                found.push(GramBlocks { gram, next: 0, postings: Vec::new() });
                // There are fewer than 2^27 grams.
                (found.len() - 1) as u32
            })
            .get();
        let blocks = &mut found[at as usize];
        if blocks.next <= block {
            varint::encode(block - blocks.next, &mut blocks.postings);
            blocks.next = block + 1;
        }
    }
}

/// Returns the number of bytes with which both names begin.
fn common_bytes(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_contain_each_part_and_each_start_of_a_word() {
        let mut names: Vec<_> =
            (0..1000).map(|number| format!("t{}_été-{number}", number % 7)).collect();
        names.sort();
        let index = BlockIndex::build(names.iter().map(String::as_str));
        for (at, name) in names.iter().enumerate() {
            for (start, _) in name.char_indices() {
                for end in (start + 1..=name.len()).filter(|end| name.is_char_boundary(*end)) {
                    let part = &name[start..end];
                    assert!(index.blocks_with(part).contains(at / BLOCK_NAMES), "{part} {name}");
                    if is_word_start(name.as_bytes(), start) {
                        let blocks = index.blocks_with_start(part);
                        assert!(blocks.contains(at / BLOCK_NAMES), "{part} {name}");
                    }
                }
            }
        }
        assert_eq!(index.blocks_with("zebra").ones().count(), 0);
        assert_eq!(index.blocks_with_start("z").ones().count(), 0);
    }
}
