//! [`FileResidual`]: the part of a filter that the statistics of a file do not prove.

use super::filter::ScanFilter;
use super::predicate::{ColumnPredicate, Matching, Predicate};
use super::statistics::FileStatistics;

/// Maximum number of conjuncts. [`Conjuncts`] has a bit for each of them.
const CONJUNCTS_MAX: usize = u64::BITS as usize;

/// A subset of the conjuncts of a [`FileResidual`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conjuncts(u64);

impl Conjuncts {
    /// Whether it has no conjunct, so that all rows match.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A filter, divided into conjuncts. A client has to evaluate only those conjuncts on a file that
/// the statistics of the file do not prove for all rows.
#[derive(Debug, Clone)]
pub struct FileResidual {
    whole: ScanFilter,
    /// Whether a conjunct is a test whether a value is in a set.
    has_sets: bool,
    conjuncts: Vec<Predicate<ColumnPredicate>>,
}

impl FileResidual {
    /// Divides a filter.
    pub fn new(filter: ScanFilter) -> Self {
        let conjuncts: Vec<_> =
            filter.root().conjuncts(CONJUNCTS_MAX).into_iter().cloned().collect();
        let is_set = |conjunct: &Predicate<ColumnPredicate>| match conjunct {
            Predicate::Leaf(leaf) => leaf.is_set(),
            _ => false,
        };
        let has_sets = conjuncts.iter().any(is_set);
        Self { whole: filter, has_sets, conjuncts }
    }

    /// Returns the conjuncts that some rows of a file may not match. `None` if no row matches all
    /// conjuncts.
    pub fn unproven(&self, file: &impl FileStatistics) -> Option<Conjuncts> {
        let mut unproven = 0;
        for (position, conjunct) in self.conjuncts.iter().enumerate() {
            match conjunct.matching(&|leaf| leaf.matching(file)) {
                Matching::None => return None,
                Matching::Some => unproven |= 1 << position,
                Matching::All => {}
            }
        }
        match file.record_count() {
            0 if self.conjuncts.is_empty() => Some(Conjuncts(unproven)),
            0 => None,
            // The file has an unknown number of rows, so its statistics prove nothing.
            ..0 => Some(Conjuncts(self.all())),
            _ => Some(Conjuncts(unproven)),
        }
    }

    /// Returns the filter with only these conjuncts.
    pub fn filter(&self, conjuncts: Conjuncts) -> ScanFilter {
        if conjuncts.0 == self.all() {
            return self.whole.clone();
        }
        ScanFilter::of_root(Predicate::all(self.kept(conjuncts).collect()))
    }

    /// Returns the filter with only these conjuncts, and with shorter sets: without most of the values
    /// that the bounds of a file exclude. `None` if no set would be much shorter.
    pub fn narrowed(&self, conjuncts: Conjuncts, file: &impl FileStatistics) -> Option<ScanFilter> {
        if !self.has_sets {
            return None;
        }
        let mut is_narrowed = false;
        let narrow = |conjunct: Predicate<ColumnPredicate>| match &conjunct {
            Predicate::Leaf(leaf) => leaf.narrowed(file).map_or(conjunct, |leaf| {
                is_narrowed = true;
                Predicate::Leaf(leaf)
            }),
            _ => conjunct,
        };
        let narrowed = self.kept(conjuncts).map(narrow).collect();
        is_narrowed.then(|| ScanFilter::of_root(Predicate::all(narrowed)))
    }

    fn kept(&self, conjuncts: Conjuncts) -> impl Iterator<Item = Predicate<ColumnPredicate>> {
        let is_kept = move |position: usize| conjuncts.0 & (1 << position) != 0;
        let kept = self.conjuncts.iter().enumerate().filter(move |(at, _)| is_kept(*at));
        kept.map(|(_, conjunct)| conjunct.clone())
    }

    fn all(&self) -> u64 {
        let bits = (0..self.conjuncts.len()).map(|position| 1 << position);
        bits.fold(0, |all, bit: u64| all | bit)
    }
}
