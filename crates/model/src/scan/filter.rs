//! [`ScanFilter`] and [`SpecFilter`]: a bound filter, and its projection through a partition spec.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::bind;
use super::error::ScanError;
use super::predicate::{ColumnPredicate, Matching, Predicate, ValueTest};
use super::projection::Projection;
use super::spec::{BoundSpec, PartitionTuple};
use super::statistics::{FileStatistics, ValueRange};
use crate::expression::{Expression, FilterLimits, Membership};
use crate::manifest_file::ManifestFile;
use crate::schema::Schema;
use crate::transform::Transform;
use crate::types::PrimitiveType;

/// A filter of rows, bound to a schema. A clone is cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanFilter(Arc<Predicate<ColumnPredicate>>);

impl ScanFilter {
    /// Returns the filter that selects all rows.
    pub fn all_rows() -> Self {
        Self(Arc::new(Predicate::Constant(true)))
    }

    /// Parses the member `filter` of a request, and binds it.
    pub fn parse(
        text: &str,
        limits: &FilterLimits,
        schema: &Schema,
        case_sensitive: bool,
    ) -> Result<Self, ScanError> {
        Self::bind(&Expression::parse_filter(text, limits)?, schema, case_sensitive)
    }

    /// Binds a filter: finds its columns, and converts its literals to their types.
    pub fn bind(
        expression: &Expression,
        schema: &Schema,
        case_sensitive: bool,
    ) -> Result<Self, ScanError> {
        bind::bind(expression, schema, case_sensitive).map(|root| Self(Arc::new(root)))
    }

    /// Returns a filter that selects the rows that both filters select.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Arc::new(Arc::unwrap_or_clone(self.0).and(Arc::unwrap_or_clone(other.0))))
    }

    /// Returns the filter with predicates on these columns that only clients can evaluate.
    #[must_use]
    pub fn without_tests_of(&self, columns: &BTreeSet<i32>) -> Self {
        if columns.is_empty() {
            return self.clone();
        }
        Self(Arc::new(self.0.map(&|leaf| {
            let test = leaf.test.clone();
            let test = test.filter(|test| !columns.contains(&test.column.field_id));
            Predicate::Leaf(ColumnPredicate { test, source: Arc::clone(&leaf.source) })
        })))
    }

    pub(super) fn of_root(root: Predicate<ColumnPredicate>) -> Self {
        Self(Arc::new(root))
    }

    pub(super) fn root(&self) -> &Predicate<ColumnPredicate> {
        &self.0
    }

    /// Whether it selects all rows, whatever they contain.
    pub fn is_always_true(&self) -> bool {
        *self.0 == Predicate::Constant(true)
    }

    /// Whether it selects no row, whatever the rows contain.
    pub fn is_always_false(&self) -> bool {
        *self.0 == Predicate::Constant(false)
    }

    /// Returns the ids of the columns whose statistics the evaluation reads.
    pub fn field_ids(&self) -> BTreeSet<i32> {
        let mut ids = BTreeSet::new();
        self.0.visit(&mut |leaf| ids.extend(leaf.test.as_ref().map(|test| test.column.field_id)));
        ids
    }

    /// Returns the JSON that all clients read: constants are `true` and `false`, and literals are
    /// as the client wrote them.
    pub fn to_json(&self) -> Value {
        render(&self.0)
    }

    /// Projects the filter through a partition spec.
    pub fn for_spec(&self, spec: &BoundSpec) -> SpecFilter {
        SpecFilter::new(self, spec)
    }

    /// Whether the file may have a row that the filter selects.
    pub fn may_match(&self, file: &impl FileStatistics) -> bool {
        file.record_count() != 0 && self.0.evaluate(&|leaf| leaf.may_match(file))
    }

    /// Whether the filter certainly selects all rows of the file.
    pub fn all_match(&self, file: &impl FileStatistics) -> bool {
        match file.record_count() {
            0 => true,
            ..0 => self.is_always_true(),
            _ => self.0.evaluate(&|leaf| leaf.all_match(file)),
        }
    }
}

impl ColumnPredicate {
    fn range(&self, file: &impl FileStatistics) -> Option<(&ValueTest, ValueRange)> {
        let test = self.test.as_ref()?;
        let range = ValueRange::of_column(file, &test.column, test.test.needs_bounds());
        let range = match &test.column.primitive {
            Some(source) if test.transform != Transform::Identity => {
                range.transform(&test.transform, source)
            }
            _ => range,
        };
        Some((&test.test, range))
    }

    fn may_match(&self, file: &impl FileStatistics) -> bool {
        self.range(file).is_none_or(|(test, range)| test.may_match(&range))
    }

    fn all_match(&self, file: &impl FileStatistics) -> bool {
        self.range(file).is_some_and(|(test, range)| test.all_match(&range))
    }

    /// Whether it tests whether a value is in a set.
    pub(super) fn is_set(&self) -> bool {
        matches!(&*self.source, Expression::Among(Membership::In, ..))
    }

    /// Returns the predicate with only those values of its set that the file may contain. `None` if
    /// this is at least half of the values.
    pub(super) fn narrowed(&self, file: &impl FileStatistics) -> Option<Self> {
        let Expression::Among(Membership::In, term, _) = &*self.source else { return None };
        let test = self.test.as_ref().filter(|test| test.literals.len() > 1)?;
        let (ValueTest::Among(Membership::In, set), range) = self.range(file)? else {
            return None;
        };
        let kept = test.literals.get(set.between(range.lower.as_ref(), range.upper.as_ref()))?;
        if kept.is_empty() || kept.len() * 2 > test.literals.len() {
            return None;
        }
        let source = Expression::Among(Membership::In, term.clone(), kept.to_vec());
        Some(Self { test: None, source: Arc::new(source) })
    }

    /// Returns the rows of a file that the predicate selects.
    pub(super) fn matching(&self, file: &impl FileStatistics) -> Matching {
        match self.range(file) {
            Some((test, range)) if !test.may_match(&range) => Matching::None,
            Some((test, range)) if test.all_match(&range) => Matching::All,
            _ => Matching::Some,
        }
    }
}

fn render(predicate: &Predicate<ColumnPredicate>) -> Value {
    match predicate {
        Predicate::Constant(all) => json!(all),
        Predicate::Leaf(leaf) => leaf.source.to_json(),
        Predicate::And(left, right) => {
            json!({ "type": "and", "left": render(left), "right": render(right) })
        }
        Predicate::Or(left, right) => {
            json!({ "type": "or", "left": render(left), "right": render(right) })
        }
    }
}

/// A filter, projected through a partition spec.
#[derive(Debug, Clone)]
pub struct SpecFilter {
    root: Predicate<ProjectedPredicate>,
    /// The types of the partition values.
    types: Vec<Option<PrimitiveType>>,
}

/// A predicate of a filter, and its projections through the fields of a spec.
#[derive(Debug, Clone)]
struct ProjectedPredicate {
    source: ColumnPredicate,
    /// Tests of partition values, each with the position of the value in the partition. If any of
    /// these tests fails, no row of the partition matches.
    inclusive: Vec<(usize, ValueTest)>,
    /// Tests of partition values, each with the position of the value in the partition. If any of
    /// these tests passes, all rows of the partition match.
    strict: Vec<(usize, ValueTest)>,
}

impl SpecFilter {
    fn new(filter: &ScanFilter, spec: &BoundSpec) -> Self {
        let root = filter.0.map(&|leaf| Predicate::Leaf(ProjectedPredicate::new(leaf, spec)));
        let types = spec.fields.iter().map(|field| field.result_type.clone()).collect();
        Self { root, types }
    }

    /// Whether a manifest may have a live file with a row that the filter selects.
    pub fn may_match_manifest(&self, manifest: &ManifestFile) -> bool {
        let is_empty =
            manifest.added_files_count == Some(0) && manifest.existing_files_count == Some(0);
        let Some(summaries) = &manifest.partitions else { return !is_empty };
        let ranges: Vec<_> = self
            .types
            .iter()
            .zip(summaries)
            .map(|(primitive, summary)| match primitive {
                Some(primitive) => ValueRange::of_summary(summary, primitive),
                None => ValueRange::default(),
            })
            .collect();
        !is_empty && self.root.evaluate(&|leaf| leaf.may_match(&ranges))
    }

    /// Whether a partition may have a row that the filter selects.
    pub fn may_match_partition(&self, partition: &PartitionTuple) -> bool {
        let ranges = ranges(partition);
        self.root.evaluate(&|leaf| leaf.may_match(&ranges))
    }

    /// Whether the filter certainly selects all rows of a partition.
    pub fn all_match_partition(&self, partition: &PartitionTuple) -> bool {
        let ranges = ranges(partition);
        self.root.evaluate(&|leaf| leaf.all_match(&ranges))
    }

    /// Returns the filter without the predicates whose result the partition proves.
    pub fn residual(&self, partition: &PartitionTuple) -> ScanFilter {
        let ranges = ranges(partition);
        ScanFilter(Arc::new(self.root.map(&|leaf| {
            if leaf.all_match(&ranges) {
                Predicate::Constant(true)
            } else if leaf.may_match(&ranges) {
                Predicate::Leaf(leaf.source.clone())
            } else {
                Predicate::Constant(false)
            }
        })))
    }
}

fn ranges(partition: &PartitionTuple) -> Vec<ValueRange> {
    partition.iter().map(|value| ValueRange::of_value(value.as_ref())).collect()
}

impl ProjectedPredicate {
    fn new(source: &ColumnPredicate, spec: &BoundSpec) -> Self {
        let mut projected =
            Self { source: source.clone(), inclusive: Vec::new(), strict: Vec::new() };
        let Some(test) = &source.test else { return projected };
        for (position, field) in spec.fields.iter().enumerate() {
            let Projection { inclusive, strict } = Projection::new(test, field);
            projected.inclusive.extend(inclusive.map(|test| (position, test)));
            projected.strict.extend(strict.map(|test| (position, test)));
        }
        projected
    }

    fn may_match(&self, ranges: &[ValueRange]) -> bool {
        let may = |(position, test): &(usize, ValueTest)| {
            ranges.get(*position).is_none_or(|range| test.may_match(range))
        };
        self.inclusive.iter().all(may)
    }

    fn all_match(&self, ranges: &[ValueRange]) -> bool {
        let all = |(position, test): &(usize, ValueTest)| {
            ranges.get(*position).is_some_and(|range| test.all_match(range))
        };
        self.strict.iter().any(all)
    }
}
