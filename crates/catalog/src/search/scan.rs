//! [`Scan`]: one search in the index.

mod fields;

use std::cmp::Ordering;
use std::ops::Range;

use super::best::{AfterMatch, BestMatches, Found, Rank, SearchScope, SearchSource};
use super::bits::{Bits, ones};
use super::block_names::{WordNames, entries_of, names_with};
use super::blocks::BLOCK_NAMES;
use super::field_index::TermHits;
use super::name_index::NameIndex;
use super::name_list::Entry;
use super::query::{MatchQuality, SearchQuery, Words};

/// Number of names of a block up to which the search reads these names instead of the whole block.
const FEW_NAMES: u32 = 32;

/// A search in the index.
pub(super) struct Scan<'a> {
    index: &'a NameIndex,
    query: &'a SearchQuery,
    scope: &'a SearchScope,
    after: Option<&'a AfterMatch>,
    /// The first sorted entry whose name is after that of `after`.
    after_from: usize,
    /// The words that each container contains. Empty for a query of one word, which the name or
    /// another text must contain.
    containers: Vec<Words>,
    /// The words that a container of each block contains.
    blocks: Vec<Words>,
    /// The blocks that can contain each word.
    with_word: Vec<Bits>,
    /// The names of each block with each word, as far as the search has read them.
    read: Vec<Option<Box<[WordNames]>>>,
    hits: TermHits,
    best: BestMatches<'a>,
}

impl<'a> Scan<'a> {
    /// Prepares a search for at most `count` matches.
    pub(super) fn new(
        index: &'a NameIndex,
        query: &'a SearchQuery,
        scope: &'a SearchScope,
        after: Option<&'a AfterMatch>,
        count: usize,
    ) -> Self {
        let hits = match &*scope.sources {
            [SearchSource::Names] => TermHits::default(),
            _ => index.fields().hits(query),
        };
        let containers = match query.words() {
            1 => Vec::new(),
            _ => index.containers().words(query),
        };
        let mut blocks = Vec::new();
        if containers.iter().any(|words| *words != 0) {
            let entries = index.names().entries()[..index.sorted()].chunks(BLOCK_NAMES);
            let words = |entries: &[Entry]| {
                let containers = entries.iter().map(|it| containers[it.container() as usize]);
                containers.fold(0, |words, of_container| words | of_container)
            };
            blocks = entries.map(words).collect();
        }
        let word = |at| index.blocks().blocks_with(query.word(at));
        Self {
            index,
            query,
            scope,
            after,
            after_from: after.map_or(0, |after| after.first_entry(index)),
            containers,
            blocks,
            with_word: (0..query.words()).map(word).collect(),
            read: vec![None; index.blocks().blocks()],
            hits,
            best: BestMatches::new(index, count),
        }
    }

    /// Returns the best matches, the best first.
    pub(super) fn run(mut self) -> Vec<Found> {
        let first = self.after.map_or(SearchSource::Names, |after| after.rank.source);
        let sources = self.scope.sources.iter().copied();
        for source in sources.filter(|source| *source >= first) {
            if self.best.is_full() {
                break;
            }
            match source {
                SearchSource::Names => self.names(),
                SearchSource::Columns | SearchSource::Comments => self.fields(source),
            }
        }
        self.best.into_sorted()
    }

    /// Finds names.
    fn names(&mut self) {
        for word in 0..self.query.words() {
            self.added_names(word);
        }
        self.exact_names();
        for quality in [MatchQuality::Prefix, MatchQuality::Word, MatchQuality::Substring] {
            self.sorted_names(quality);
        }
    }

    /// Finds the names behind the sorted ones in which `word` is the first word that the name
    /// contains.
    fn added_names(&mut self, word: usize) {
        let names = self.index.names();
        let mut at = self.index.sorted();
        let Some(first) = names.entries().get(at) else { return };
        let mut from = first.start();
        while let Some(found) = self.query.find(word, &names.text()[from..]) {
            let behind = |it: &Entry| it.start() <= from + found;
            at += names.entries()[at..].partition_point(behind) - 1;
            from = names.end(at);
            let entry = at as u32;
            if self.is_in_scope(entry)
                && let Some(words) = self.query.words_in(names.folded(entry))
                && words.first() == word
                && words.words | self.container_words(entry) == self.query.all_words()
            {
                self.add(Found::name(words.quality, entry));
            }
        }
    }

    /// Finds the sorted names that are the query, or the only word that the namespace does not
    /// contain.
    fn exact_names(&mut self) {
        let words = (0..self.query.words()).map(|at| self.query.word(at));
        let mut texts: Vec<_> = words.chain([self.query.whole()]).collect();
        texts.sort_unstable();
        texts.dedup();
        for text in texts {
            let Some(words) = self.query.words_in(text) else { continue };
            if words.quality != MatchQuality::Exact {
                continue;
            }
            let Range { start, end } = self.index.sorted_with(text, false);
            for at in self.start_of(MatchQuality::Exact, start)..end {
                let found = Found::name(MatchQuality::Exact, at as u32);
                if !self.best.takes(found) {
                    break;
                }
                if words.words | self.container_words(found.at) == self.query.all_words()
                    && self.is_in_scope(found.at)
                {
                    self.add(found);
                }
            }
        }
    }

    /// Finds the sorted names with matches of this quality, which is not exact.
    fn sorted_names(&mut self, quality: MatchQuality) {
        let rank = Rank { source: SearchSource::Names, quality };
        if !self.best.may_contain(rank) || self.after.is_some_and(|after| after.rank > rank) {
            return;
        }
        let with_words = self.blocks_with_words(quality);
        let candidates = self.candidates(&with_words);
        let first = self.start_of(quality, 0);
        for block in candidates.ones().skip_while(|block| *block < first / BLOCK_NAMES) {
            let start = block * BLOCK_NAMES;
            if !self.best.takes(Found::name(quality, start as u32)) {
                // All further names are worse.
                break;
            }
            let mut found = match self.few_possible_names(block, &with_words) {
                Some(possible) => self.names_among(possible, block, quality),
                None => self.names_in_block(block, quality),
            };
            if start < first {
                found &= u64::MAX << (first - start);
            }
            for at in ones(found).map(|bit| (start + bit) as u32) {
                if self.is_in_scope(at) && !self.is_exact(at) {
                    self.add(Found::name(quality, at));
                }
            }
        }
    }

    /// Returns the first sorted entry from `start` on that can be after the cursor.
    fn start_of(&self, quality: MatchQuality, start: usize) -> usize {
        let rank = Rank { source: SearchSource::Names, quality };
        match self.after {
            Some(after) if after.rank == rank => start.max(self.after_from),
            _ => start,
        }
    }

    /// Returns the blocks that can contain each word in a match of this quality.
    fn blocks_with_words(&self, quality: MatchQuality) -> Vec<Bits> {
        let blocks = self.index.blocks().blocks();
        let with_word = |at: usize| match quality {
            MatchQuality::Substring => self.with_word[at].clone(),
            MatchQuality::Word => self.index.blocks().blocks_with_start(self.query.word(at)),
            MatchQuality::Exact | MatchQuality::Prefix => {
                let Range { start, end } = self.index.sorted_with(self.query.word(at), true);
                let mut blocks = Bits::new(blocks);
                for block in start / BLOCK_NAMES..end.div_ceil(BLOCK_NAMES) {
                    // There are fewer blocks than entries.
                    blocks.insert(block as u32);
                }
                blocks
            }
        };
        (0..self.query.words()).map(with_word).collect()
    }

    /// Returns the blocks that can contain matches. `with_words` are the blocks with each word.
    fn candidates(&self, with_words: &[Bits]) -> Bits {
        if self.blocks.is_empty() {
            return with_words.iter().skip(1).fold(with_words[0].clone(), Bits::and);
        }
        let mut candidates = Bits::new(self.blocks.len());
        for (block, in_containers) in self.blocks.iter().enumerate() {
            let words = words_of_block(with_words, block);
            if words != 0 && words | in_containers == self.query.all_words() {
                candidates.insert(block as u32);
            }
        }
        candidates
    }

    /// Returns the names of a block that can match, if only few of them can, and if the block was
    /// not read before. `with_words` are the blocks with each word.
    fn few_possible_names(&self, block: usize, with_words: &[Bits]) -> Option<u64> {
        if self.blocks.is_empty() || self.read[block].is_some() {
            return None;
        }
        let (in_block, all) = (words_of_block(with_words, block), self.query.all_words());
        let possible = self.names_where(block, |inside| in_block | inside == all);
        (possible.count_ones() <= FEW_NAMES).then_some(possible)
    }

    /// Returns those of some names of a block that match with this quality.
    fn names_among(&self, possible: u64, block: usize, quality: MatchQuality) -> u64 {
        let start = block * BLOCK_NAMES;
        let matching = ones(possible).filter(|bit| {
            // The number of entries is checked when an entry is added.
            let entry = (start + bit) as u32;
            let name = self.index.names().folded_bytes(entry);
            self.query.matches(name, self.container_words(entry), quality)
        });
        matching.fold(0, |names, bit| names | 1 << bit)
    }

    /// Returns the names of a block with matches of this quality. Some of these can be exact.
    fn names_in_block(&mut self, block: usize, quality: MatchQuality) -> u64 {
        let (mut complete, mut any) = (u64::MAX, 0);
        let (mut all_words, mut all_prefixes) = (u64::MAX, u64::MAX);
        for word in 0..self.query.words() {
            let names = self.read_block(block)[word];
            complete &= names.any | self.names_inside(block, word);
            if complete == 0 {
                return 0;
            }
            any |= names.any;
            all_words &= names.word | !names.any;
            all_prefixes &= names.prefix | !names.any;
        }
        complete
            & any
            & match quality {
                MatchQuality::Exact | MatchQuality::Prefix => all_prefixes,
                MatchQuality::Word => all_words & !all_prefixes,
                MatchQuality::Substring => !all_words,
            }
    }

    /// Returns the names of a block that contain each word.
    fn read_block(&mut self, block: usize) -> &[WordNames] {
        if self.read[block].is_none() {
            let names = (0..self.query.words()).map(|word| {
                let can_contain = self.with_word[word].contains(block);
                let names = || names_with(self.index, self.query, block, word);
                if can_contain { names() } else { WordNames::default() }
            });
            self.read[block] = Some(names.collect());
        }
        self.read[block].as_deref().unwrap_or_default()
    }

    /// Returns the names of a block in containers that contain a word.
    fn names_inside(&self, block: usize, word: usize) -> u64 {
        if self.blocks.get(block).is_none_or(|words| words & 1 << word == 0) {
            return 0;
        }
        self.names_where(block, |inside| inside & 1 << word != 0)
    }

    /// Returns the names of a block for which a condition on the words in their containers is true.
    fn names_where(&self, block: usize, is_true: impl Fn(Words) -> bool) -> u64 {
        let entries = &self.index.names().entries()[entries_of(self.index, block)];
        let is_true = |entry: &Entry| is_true(self.containers[entry.container() as usize]);
        let names = entries.iter().enumerate();
        names.fold(0, |names, (at, entry)| names | u64::from(is_true(entry)) << at)
    }

    fn is_exact(&self, at: u32) -> bool {
        let name = self.index.names().folded(at);
        let is_possible = name.len() == self.query.whole().len()
            || (0..self.query.words()).any(|word| name.len() == self.query.word(word).len());
        is_possible && self.query.words_in(name).is_some_and(|it| it.quality == MatchQuality::Exact)
    }

    /// Whether the name and the namespace of an entry contain the words that a column or comment
    /// does not contain, and the name does not match itself.
    fn fits(&mut self, at: u32, words: Words) -> bool {
        let all = self.query.all_words();
        let searches_names = self.scope.sources.contains(&SearchSource::Names);
        if words == all && !searches_names {
            return true;
        }
        let (in_name, in_container) = (self.name_words(at), self.container_words(at));
        words | in_name | in_container == all
            && !(searches_names && in_name != 0 && in_name | in_container == all)
    }

    /// Returns the words that the container of an entry contains.
    fn container_words(&self, at: u32) -> Words {
        let container = self.index.names().entry(at).container();
        self.containers.get(container as usize).copied().unwrap_or_default()
    }

    /// Returns the words that the name of an entry contains.
    fn name_words(&mut self, at: u32) -> Words {
        let sorted = self.index.sorted();
        if at as usize >= sorted {
            return self.query.contained_words(self.index.names().folded(at));
        }
        let (block, bit) = (at as usize / BLOCK_NAMES, at as usize % BLOCK_NAMES);
        let names = self.read_block(block).iter().enumerate();
        names.fold(0, |words, (word, names)| words | ((names.any >> bit & 1) as Words) << word)
    }

    fn is_in_scope(&self, at: u32) -> bool {
        let entry = self.index.names().entry(at);
        let SearchScope { warehouse, kinds, hidden, .. } = self.scope;
        !entry.is_removed()
            && (kinds.is_empty() || kinds.contains(&entry.kind()))
            && (hidden.is_empty() || !hidden.contains(&(entry.container(), entry.kind())))
            && warehouse.is_none_or(|only| only == self.index.holder(entry).warehouse)
    }

    /// Adds a match, if it is after the cursor.
    fn add(&mut self, found: Found) {
        let is_after = self.after.is_none_or(|after| match found.rank.cmp(&after.rank) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal if (found.at as usize) < self.index.sorted() => {
                found.at as usize >= self.after_from
            }
            Ordering::Equal => after.compare(self.index, found.at) == Ordering::Greater,
        });
        if is_after {
            self.best.add(found);
        }
    }
}

/// Returns the words that a block can contain. `with_words` are the blocks with each word.
fn words_of_block(with_words: &[Bits], block: usize) -> Words {
    let with_word = with_words.iter().enumerate().filter(|(_, it)| it.contains(block));
    with_word.fold(0, |words, (at, _)| words | 1 << at)
}
