//! Columns of a manifest in memory: one value for each file, in the smallest suitable form.

use slateberg_model::scan::EqualLengthBounds;

/// Value of a [`LongsBuilder`] for a missing number.
const ABSENT: i64 = i64::MIN;
/// Value of [`Longs::Small`] for a missing number.
const ABSENT_SMALL: u32 = u32::MAX;
/// Bit that marks a missing blob in its end position.
const ABSENT_BIT: u32 = 1 << 31;
/// Maximum size of the blobs of one column, in bytes.
const BLOB_BYTES_MAX: usize = (ABSENT_BIT - 1) as usize;

/// Memory that a reader may still use.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) bytes_left: u64,
    pub(super) bytes_max: u64,
}

impl Budget {
    /// Takes memory. Errors if there is not enough.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(bytes as u64);
        self.bytes_left = left.ok_or_else(|| {
            let max = self.bytes_max;
            format!("takes more than {max} bytes of memory (catalog.file_bytes_max)")
        })?;
        Ok(())
    }
}

/// Optional numbers, one for each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Longs {
    /// All rows have this value.
    Constant(Option<i64>),
    Small(Box<[u32]>),
    Large(Box<[i64]>),
}

impl Longs {
    /// Returns the number of a row.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::Constant(value) => *value,
            Self::Small(values) => {
                values.get(row).filter(|value| **value != ABSENT_SMALL).map(|it| i64::from(*it))
            }
            Self::Large(values) => values.get(row).copied().filter(|value| *value != ABSENT),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Small(values) => size_of_val(&**values),
            Self::Large(values) => size_of_val(&**values),
        }
    }
}

/// Builds [`Longs`].
#[derive(Debug, Default)]
pub(super) struct LongsBuilder(Vec<i64>);

impl LongsBuilder {
    /// Sets the number of a row. Earlier rows for which no number was set have none.
    pub(super) fn set(
        &mut self,
        row: usize,
        value: i64,
        budget: &mut Budget,
    ) -> Result<(), String> {
        self.pad(row, budget)?;
        if self.0.len() == row {
            budget.take(size_of::<i64>())?;
            self.0.push(value);
        }
        Ok(())
    }

    fn pad(&mut self, row: usize, budget: &mut Budget) -> Result<(), String> {
        if self.0.len() < row {
            budget.take((row - self.0.len()) * size_of::<i64>())?;
            self.0.resize(row, ABSENT);
        }
        Ok(())
    }

    /// Sets or omits the number of a row.
    pub(super) fn put(
        &mut self,
        row: usize,
        value: Option<i64>,
        budget: &mut Budget,
    ) -> Result<(), String> {
        value.map_or(Ok(()), |value| self.set(row, value, budget))
    }

    /// Removes the numbers from this row on.
    pub(super) fn truncate(&mut self, row: usize) {
        self.0.truncate(row);
    }

    /// Returns the column of `rows` rows.
    pub(super) fn finish(mut self, rows: usize, budget: &mut Budget) -> Result<Longs, String> {
        if self.0.is_empty() {
            return Ok(Longs::Constant(None));
        }
        self.pad(rows, budget)?;
        let first = self.0[0];
        if self.0.iter().all(|value| *value == first) {
            return Ok(Longs::Constant((first != ABSENT).then_some(first)));
        }
        let small = |value: &i64| match *value {
            ABSENT => Some(ABSENT_SMALL),
            value => u32::try_from(value).ok().filter(|small| *small != ABSENT_SMALL),
        };
        match self.0.iter().map(small).collect::<Option<Vec<u32>>>() {
            Some(values) => Ok(Longs::Small(values.into_boxed_slice())),
            None => Ok(Longs::Large(self.0.into_boxed_slice())),
        }
    }
}

/// Optional bytes, one for each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blobs {
    /// No row has bytes.
    Absent,
    /// All rows have bytes of this length.
    Fixed { width: usize, bytes: Box<[u8]> },
    /// The bytes of all rows, one after the other, and the end position of each row in them. A row
    /// without bytes has [`ABSENT_BIT`] in its end position.
    Variable { ends: Box<[u32]>, bytes: Box<[u8]> },
}

impl Blobs {
    /// Returns the bytes of a row.
    pub(super) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::Fixed { width, bytes } => bytes.get(row * width..(row + 1) * width),
            Self::Variable { ends, bytes } => {
                let end = *ends.get(row)?;
                if end & ABSENT_BIT != 0 {
                    return None;
                }
                let start = match row {
                    0 => 0,
                    row => ends[row - 1] & !ABSENT_BIT,
                };
                bytes.get(start as usize..end as usize)
            }
        }
    }

    /// Returns all bytes, if all rows have 4 or 8 bytes.
    pub(super) fn of_equal_length(&self) -> Option<EqualLengthBounds<'_>> {
        let Self::Fixed { width, bytes } = self else { return None };
        match width {
            4 => Some(EqualLengthBounds::Four(bytes.as_chunks().0)),
            8 => Some(EqualLengthBounds::Eight(bytes.as_chunks().0)),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Fixed { bytes, .. } => bytes.len(),
            Self::Variable { ends, bytes } => size_of_val(&**ends) + bytes.len(),
        }
    }
}

/// Builds [`Blobs`].
#[derive(Debug, Default)]
pub(super) struct BlobsBuilder {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl BlobsBuilder {
    /// Sets the bytes of a row. Earlier rows for which no bytes were set have none.
    pub(super) fn set(
        &mut self,
        row: usize,
        value: &[u8],
        budget: &mut Budget,
    ) -> Result<(), String> {
        self.pad(row, budget)?;
        if self.ends.len() > row {
            return Ok(());
        }
        budget.take(size_of::<u32>() + value.len())?;
        if self.bytes.len() + value.len() > BLOB_BYTES_MAX {
            return Err("has too many bytes in one column".to_owned());
        }
        self.bytes.extend_from_slice(value);
        self.ends.push(self.end());
        Ok(())
    }

    /// Returns the number of bytes, which is at most [`BLOB_BYTES_MAX`].
    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(ABSENT_BIT - 1)
    }

    fn pad(&mut self, row: usize, budget: &mut Budget) -> Result<(), String> {
        if self.ends.len() < row {
            budget.take((row - self.ends.len()) * size_of::<u32>())?;
            self.ends.resize(row, self.end() | ABSENT_BIT);
        }
        Ok(())
    }

    /// Removes the bytes from this row on.
    pub(super) fn truncate(&mut self, row: usize) {
        if row < self.ends.len() {
            self.ends.truncate(row);
            let end = self.ends.last().map_or(0, |end| end & !ABSENT_BIT);
            self.bytes.truncate(end as usize);
        }
    }

    /// Returns the column of `rows` rows.
    pub(super) fn finish(mut self, rows: usize, budget: &mut Budget) -> Result<Blobs, String> {
        if self.ends.iter().all(|end| end & ABSENT_BIT != 0) {
            return Ok(Blobs::Absent);
        }
        self.pad(rows, budget)?;
        let width = self.ends[0] as usize;
        let has_width = |(row, end): (usize, &u32)| *end as usize == (row + 1) * width;
        if width > 0 && self.ends.iter().enumerate().all(has_width) {
            return Ok(Blobs::Fixed { width, bytes: self.bytes.into_boxed_slice() });
        }
        Ok(Blobs::Variable {
            ends: self.ends.into_boxed_slice(),
            bytes: self.bytes.into_boxed_slice(),
        })
    }
}

impl BlobsBuilder {
    /// Returns the common prefix of all strings, and a column with the rest of each string.
    pub(super) fn finish_with_prefix(
        self,
        rows: usize,
        budget: &mut Budget,
    ) -> Result<(Box<str>, Blobs), String> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let values = starts
            .zip(&self.ends)
            .map(|(start, end)| self.bytes.get(start as usize..*end as usize).unwrap_or_default());
        let prefix = values.clone().reduce(common_prefix).unwrap_or_default();
        // Ends the prefix at a slash, so that it does not end within a UTF-8 character: the byte of
        // a slash is never a part of another character.
        let length = prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let prefix = String::from_utf8_lossy(&prefix[..length]).into();
        let mut rest = Self::default();
        let mut copied = Budget { bytes_left: u64::MAX, bytes_max: u64::MAX };
        for (row, value) in values.enumerate() {
            rest.set(row, value.get(length..).unwrap_or_default(), &mut copied)?;
        }
        Ok((prefix, rest.finish(rows, budget)?))
    }
}

fn common_prefix<'a>(one: &'a [u8], other: &'a [u8]) -> &'a [u8] {
    let length = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    &one[..length]
}

/// Lists of numbers, one for each row. A missing list is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lists {
    /// End position of each row's items. Empty if no row has items.
    ends: Box<[u32]>,
    items: Longs,
}

impl Lists {
    /// Returns the items of a row.
    pub(super) fn get(&self, row: usize) -> impl Iterator<Item = i64> {
        let end = self.ends.get(row).copied().unwrap_or(0);
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before).copied());
        (start.unwrap_or(0) as usize..end as usize).filter_map(|at| self.items.get(at))
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.ends) + self.items.bytes()
    }
}

/// Builds [`Lists`].
#[derive(Debug, Default)]
pub(super) struct ListsBuilder {
    ends: Vec<u32>,
    items: LongsBuilder,
}

impl ListsBuilder {
    /// Adds an item to the row that is being built.
    pub(super) fn push(&mut self, item: i64, budget: &mut Budget) -> Result<(), String> {
        self.items.set(self.items.0.len(), item, budget)
    }

    /// Ends the row with this number.
    pub(super) fn end_row(&mut self, row: usize, budget: &mut Budget) -> Result<(), String> {
        let end = u32::try_from(self.items.0.len()).map_err(|_| "has too many items")?;
        let last = self.ends.last().copied().unwrap_or(0);
        if end > last || !self.ends.is_empty() {
            budget.take((row + 1 - self.ends.len()) * size_of::<u32>())?;
            self.ends.resize(row, last);
            self.ends.push(end);
        }
        Ok(())
    }

    /// Removes the items of the row that is being built.
    pub(super) fn discard_row(&mut self) {
        self.items.truncate(self.ends.last().copied().unwrap_or(0) as usize);
    }

    /// Returns the column.
    pub(super) fn finish(self, budget: &mut Budget) -> Result<Lists, String> {
        let items = self.items.0.len();
        Ok(Lists { ends: self.ends.into_boxed_slice(), items: self.items.finish(items, budget)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { bytes_left: 1 << 20, bytes_max: 1 << 20 }
    }

    fn longs(values: &[Option<i64>]) -> Longs {
        let (mut builder, mut budget) = (LongsBuilder::default(), budget());
        for (row, value) in values.iter().enumerate() {
            builder.put(row, *value, &mut budget).expect("it fits");
        }
        builder.finish(values.len(), &mut budget).expect("it fits")
    }

    fn blobs(values: &[Option<&[u8]>]) -> Blobs {
        let (mut builder, mut budget) = (BlobsBuilder::default(), budget());
        for (row, value) in values.iter().enumerate() {
            if let Some(value) = value {
                builder.set(row, value, &mut budget).expect("it fits");
            }
        }
        builder.finish(values.len(), &mut budget).expect("it fits")
    }

    #[test]
    fn numbers_are_stored_in_the_smallest_form() {
        assert_eq!(longs(&[None, None]), Longs::Constant(None));
        assert_eq!(longs(&[Some(7), Some(7)]), Longs::Constant(Some(7)));
        assert!(matches!(longs(&[Some(7), None, Some(0)]), Longs::Small(_)));
        assert!(matches!(longs(&[Some(-7), None]), Longs::Large(_)));
        assert!(matches!(longs(&[Some(u32::MAX.into()), None]), Longs::Large(_)));
    }

    #[test]
    fn every_row_has_the_value_that_was_set() {
        for values in [
            vec![Some(1), None, Some(3), None],
            vec![None, Some(i64::MAX), Some(-1)],
            vec![None, None, Some(5)],
        ] {
            let column = longs(&values);
            let read: Vec<_> = (0..values.len()).map(|row| column.get(row)).collect();
            assert_eq!(read, values);
            assert_eq!(column.get(values.len() + 1), None);
        }
        for values in [
            vec![Some(&b"ab"[..]), Some(b"cd")],
            vec![None, Some(b"ab"), None, Some(b""), Some(b"cde"), None],
            vec![None, None],
            vec![Some(b""), Some(b"")],
        ] {
            let column = blobs(&values);
            let read: Vec<_> = (0..values.len()).map(|row| column.get(row)).collect();
            assert_eq!(read, values);
        }
    }

    #[test]
    fn lists_of_rows_are_separate() {
        let (mut builder, mut budget) = (ListsBuilder::default(), budget());
        for (row, items) in [vec![], vec![4, 9], vec![], vec![7]].into_iter().enumerate() {
            for item in items {
                builder.push(item, &mut budget).expect("it fits");
            }
            builder.end_row(row, &mut budget).expect("it fits");
        }
        builder.push(1, &mut budget).expect("it fits");
        builder.discard_row();
        let lists = builder.finish(&mut budget).expect("it fits");
        let read: Vec<Vec<_>> = (0..5).map(|row| lists.get(row).collect()).collect();
        assert_eq!(read, [vec![], vec![4, 9], vec![], vec![7], vec![]]);
    }

    #[test]
    fn rows_that_are_discarded_leave_no_values() {
        let (mut builder, mut budget) = (BlobsBuilder::default(), budget());
        builder.set(0, b"a", &mut budget).expect("it fits");
        builder.set(1, b"bc", &mut budget).expect("it fits");
        builder.truncate(1);
        builder.set(2, b"d", &mut budget).expect("it fits");
        let column = builder.finish(3, &mut budget).expect("it fits");
        let expected = [Some(&b"a"[..]), None, Some(b"d")];
        assert_eq!([0, 1, 2].map(|row| column.get(row)), expected);
    }

    #[test]
    fn column_that_exceeds_the_budget_is_rejected() {
        let mut budget = Budget { bytes_left: 100, bytes_max: 100 };
        let mut builder = LongsBuilder::default();
        assert!(builder.set(1000, 1, &mut budget).is_err(), "the rows before it take memory");
        assert!(BlobsBuilder::default().set(0, &[0; 200], &mut budget).is_err());
    }
}
