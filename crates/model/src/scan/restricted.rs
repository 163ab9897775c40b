//! [`RestrictedSchema`]: read restrictions in scans.
//!
//! The row filter of a reader is combined with the filter of each scan. Clients evaluate predicates
//! on masked columns on the masked values, so these predicates prune no files: the client evaluates
//! them on all files.

use std::collections::BTreeSet;

use super::error::ScanError;
use super::filter::ScanFilter;
use crate::expression::FilterLimits;
use crate::read_restrictions::ReadRestrictions;
use crate::schema::{Schema, SchemaIndex};

/// The limits of row filters. Policies have limits for their filters, so this only limits the
/// recursion of a parser.
const ROW_FILTER_LIMITS: FilterLimits =
    FilterLimits { bytes_max: usize::MAX, depth_max: 64, literals_max: usize::MAX };

/// The schema of a scan, with the read restrictions of a reader.
pub struct RestrictedSchema<'a> {
    restrictions: &'a ReadRestrictions,
    current: &'a Schema,
    schema: &'a Schema,
    index: SchemaIndex<'a>,
}

impl<'a> RestrictedSchema<'a> {
    /// Creates it for a scan with a schema that may be older than the table's current one.
    pub fn new(
        restrictions: &'a ReadRestrictions,
        current: &'a Schema,
        schema: &'a Schema,
    ) -> Result<Self, ScanError> {
        Ok(Self { restrictions, current, schema, index: schema.index()? })
    }

    /// Returns the columns that are not masked.
    pub fn without_masked(&self, columns: &[i32]) -> Vec<i32> {
        columns.iter().copied().filter(|id| !self.is_masked(*id)).collect()
    }

    /// Combines the filter of a client with the row filter. `None` if the row filter does not apply
    /// to the schema of the scan.
    pub fn restrict(&self, filter: &ScanFilter) -> Result<Option<ScanFilter>, ScanError> {
        let of_client = filter.field_ids().into_iter();
        let masked: BTreeSet<_> = of_client.filter(|id| self.is_masked(*id)).collect();
        let row_filter = self.row_filter()?;
        Ok(row_filter.map(|row_filter| filter.without_tests_of(&masked).and(row_filter)))
    }

    /// Returns the row filter. It refers to columns of the current schema. `None` if one of them is
    /// missing in the schema of the scan or has another type in it, because literals of the filter
    /// could then have another meaning.
    pub fn row_filter(&self) -> Result<Option<ScanFilter>, ScanError> {
        let Some(filter) = &self.restrictions.filter else {
            return Ok(Some(ScanFilter::all_rows()));
        };
        let text = filter.to_string();
        let bound = ScanFilter::parse(&text, &ROW_FILTER_LIMITS, self.current, true)?;
        let is_same = |id: &i32| {
            let found = self.current.primitive_type(*id);
            found.is_some() && found == self.schema.primitive_type(*id)
        };
        Ok(bound.field_ids().iter().all(is_same).then_some(bound))
    }

    /// Whether a column is masked, or is in a masked column. A column that the schema of the scan
    /// does not have cannot be checked, so it counts as masked.
    fn is_masked(&self, id: i32) -> bool {
        let masks = &self.restrictions.masks;
        let mut around = self.index.ancestors(id).map(|parent| parent.field.id);
        self.index.field(id).is_none()
            || masks.contains_key(&id)
            || around.any(|id| masks.contains_key(&id))
    }
}
