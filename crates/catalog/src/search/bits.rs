//! [`Bits`]: a set of small numbers.

/// A set of numbers below a limit, with one bit for each number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Returns an empty set of numbers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self(vec![0; limit.div_ceil(64)])
    }

    /// Returns the set of all numbers below `limit`.
    pub(super) fn all(limit: usize) -> Self {
        let mut all = Self(vec![u64::MAX; limit.div_ceil(64)]);
        if let Some(last) = all.0.last_mut()
            && !limit.is_multiple_of(64)
        {
            *last = (1 << (limit % 64)) - 1;
        }
        all
    }

    /// Adds a number. Returns `false` if the set contains it already.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        let is_new = self.0[at] & bit == 0;
        self.0[at] |= bit;
        is_new
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|bits| bits & 1 << (number % 64) != 0)
    }

    /// Returns the numbers that both sets contain.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(bits, other)| *bits &= other);
        self
    }

    /// Returns the numbers in ascending order.
    pub(super) fn ones(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, bits)| ones(*bits).map(move |bit| at * 64 + bit))
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

/// Returns the positions of the bits that are set, in ascending order.
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            bit
        })
    })
}
