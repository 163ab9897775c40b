//! The names of a block that contain a word.

use std::ops::Range;

use super::blocks::{BLOCK_NAMES, is_word_start};
use super::name_index::NameIndex;
use super::query::SearchQuery;

/// The names of a block that contain a word: one bit for each name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WordNames {
    /// The names that contain the word.
    pub(super) any: u64,
    /// The names in which a word starts with the word.
    pub(super) word: u64,
    /// The names that start with the word.
    pub(super) prefix: u64,
}

/// Returns the entries of a block.
pub(super) fn entries_of(index: &NameIndex, block: usize) -> Range<usize> {
    let start = block * BLOCK_NAMES;
    start..(start + BLOCK_NAMES).min(index.sorted())
}

/// Returns the names of a block that contain a word.
pub(super) fn names_with(
    index: &NameIndex,
    query: &SearchQuery,
    block: usize,
    word: usize,
) -> WordNames {
    let mut found = WordNames::default();
    let (names, entries) = (index.names(), entries_of(index, block));
    let mut at = entries.start;
    let base = names.entries()[at].start();
    let text = &names.text()[base..names.end(entries.end - 1)];
    let mut end = names.end(at) - base;
    query.visit(word, text, |position| {
        while position > end {
            at += 1;
            end = names.end(at) - base;
        }
        let (start, bit) = (names.entries()[at].start() - base, 1 << (at - entries.start));
        found.any |= bit;
        if position == start {
            found.prefix |= bit;
        }
        let is_word = is_word_start(&text[start..], position - start);
        if !is_word {
            return position + 1;
        }
        found.word |= bit;
        // If a word of the name starts here, its other parts do not matter.
        end
    });
    found
}
