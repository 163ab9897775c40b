//! The evaluation of a filter on many files, in blocks.

use proptest::prelude::*;
use serde_json::json;

use super::{TestFile, compare, filter};
use crate::scan::{BLOCK_FILES, EqualLengthBounds, ManifestStatistics, Side};
use crate::value::Datum;

/// The column `l` of type `long`.
const LONG: i32 = 2;

/// A manifest with bounds of the column `l`.
#[derive(Debug)]
struct TestManifest {
    files: Vec<TestFile>,
    bounds: [Vec<[u8; 8]>; 2],
    extremes: [Box<[i64]>; 2],
}

impl TestManifest {
    fn new(ranges: &[(i64, i64)]) -> Self {
        let file = |(lower, upper): &(i64, i64)| {
            let bounds = (Datum::Integer(*lower), Datum::Integer(*upper));
            TestFile::of_column(LONG, 0, Some(bounds))
        };
        let lower: Vec<_> = ranges.iter().map(|(lower, _)| lower.to_le_bytes()).collect();
        let upper: Vec<_> = ranges.iter().map(|(_, upper)| upper.to_le_bytes()).collect();
        let extremes = [(&lower, Side::Lower), (&upper, Side::Upper)]
            .map(|(bounds, side)| EqualLengthBounds::Eight(bounds).block_extremes(side));
        Self { files: ranges.iter().map(file).collect(), bounds: [lower, upper], extremes }
    }
}

impl ManifestStatistics for TestManifest {
    type File<'a> = TestFile;

    fn file(&self, row: usize) -> TestFile {
        self.files[row].clone()
    }

    fn equal_length_bounds(&self, field_id: i32, side: Side) -> Option<EqualLengthBounds<'_>> {
        let bounds = &self.bounds[side as usize];
        (field_id == LONG).then_some(EqualLengthBounds::Eight(bounds))
    }

    fn block_extremes(&self, field_id: i32, side: Side) -> &[i64] {
        if field_id == LONG { &self.extremes[side as usize] } else { &[] }
    }
}

/// Ranges that mostly increase, as in a table that grows over time.
fn any_ranges() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0_i64..40, 0_i64..20), 1..3 * BLOCK_FILES).prop_map(|files| {
        let range = |(at, (shift, length)): (usize, (i64, i64))| {
            let first = i64::try_from(at).expect("it is small") + shift;
            (first, first + length)
        };
        files.into_iter().enumerate().map(range).collect()
    })
}

proptest! {
    #[test]
    fn kept_files_are_those_that_may_match_by_themselves(
        ranges in any_ranges(),
        first in 0_usize..BLOCK_FILES,
        values in prop::collection::vec(-10_i64..900, 1..40),
        name in prop::sample::select(vec!["lt", "lt-eq", "gt", "gt-eq", "eq"]),
    ) {
        let manifest = TestManifest::new(&ranges);
        let rows = first.min(ranges.len())..ranges.len();
        let compared = compare(name, "l", json!(values[0]));
        let listed = json!({"type": "in", "term": "l", "values": values});
        for json in [
            compared.clone(),
            listed.clone(),
            json!({"type": "and", "left": compared, "right": listed}),
            json!({"type": "or", "left": compared, "right": listed}),
        ] {
            let filter = filter(&json);
            let may_match = |row: &usize| filter.may_match(&manifest.files[*row]);
            let expected: Vec<_> = rows.clone().filter(may_match).collect();
            prop_assert_eq!(filter.narrow(&manifest, rows.clone()), expected, "{}", json);
        }
    }
}
