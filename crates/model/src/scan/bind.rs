//! Binds a filter to a schema: finds the columns, converts the literals, and replaces negations by
//! negated predicates.

use std::sync::Arc;

use serde_json::Value;

use super::error::ScanError;
use super::predicate::{BoundColumn, ColumnPredicate, ColumnTest, DatumSet, Predicate, ValueTest};
use super::statistics::is_floating;
use crate::expression::{Comparison, Expression, Membership, Term, Test};
use crate::members::brief;
use crate::schema::{Schema, SchemaIndex};
use crate::transform::Transform;
use crate::types::{NestedField, PrimitiveType, Type};
use crate::value::Datum;
use crate::value::literal::Literal;

type Bound = Result<Predicate<ColumnPredicate>, ScanError>;

/// Binds a filter.
pub(super) fn bind(expression: &Expression, schema: &Schema, case_sensitive: bool) -> Bound {
    let index = schema.index()?;
    Binder { schema, index, case_sensitive }.bind(expression, false)
}

struct Binder<'a> {
    schema: &'a Schema,
    index: SchemaIndex<'a>,
    case_sensitive: bool,
}

/// The operand of a predicate, with its type.
struct BoundTerm {
    column: BoundColumn,
    /// The full name of the column.
    name: String,
    transform: Transform,
    /// The type of the operand's values. `None` if it is not primitive.
    result: Option<PrimitiveType>,
    /// Whether the operand is never null.
    is_required: bool,
    /// Whether only the client can evaluate the operand. This is the case if the column is inside a
    /// list or map, and so has many values in one row, or if the transform is `void` or unknown.
    is_opaque: bool,
}

impl Binder<'_> {
    fn bind(&self, expression: &Expression, negated: bool) -> Bound {
        match expression {
            Expression::Constant(all) => Ok(Predicate::Constant(*all != negated)),
            Expression::Not(inner) => self.bind(inner, !negated),
            Expression::And(left, right) | Expression::Or(left, right) => {
                let (left, right) = (self.bind(left, negated)?, self.bind(right, negated)?);
                let is_and = matches!(expression, Expression::And(..));
                Ok(if is_and == negated { left.or(right) } else { left.and(right) })
            }
            Expression::Test(test, term) => {
                self.bind_test(if negated { test.negate() } else { *test }, term)
            }
            Expression::Compare(comparison, term, value) => {
                let comparison = if negated { comparison.negate() } else { *comparison };
                self.bind_comparison(comparison, term, value)
            }
            Expression::Among(membership, term, values) => {
                let membership = if negated { membership.negate() } else { *membership };
                self.bind_membership(membership, term, values)
            }
            Expression::Opaque(_) => {
                let source = expression.clone();
                Ok(opaque(if negated { Expression::Not(Box::new(source)) } else { source }))
            }
        }
    }

    fn bind_test(&self, test: Test, term: &Term) -> Bound {
        let bound = self.find(term)?;
        let source = Expression::Test(test, bound.with_name(term));
        match test {
            _ if bound.is_opaque => Ok(opaque(source)),
            Test::IsNull | Test::NotNull if bound.is_required => {
                Ok(Predicate::Constant(test == Test::NotNull))
            }
            Test::IsNan | Test::NotNan if !bound.result.as_ref().is_some_and(is_floating) => {
                let name = if test == Test::IsNan { "IsNaN" } else { "NotNaN" };
                Err(ScanError::validation(format!(
                    "{name} cannot be used with a non-floating-point column"
                )))
            }
            _ => Ok(bound.leaf(ValueTest::Is(test), source)),
        }
    }

    fn bind_comparison(&self, comparison: Comparison, term: &Term, value: &Value) -> Bound {
        let bound = self.find(term)?;
        let source = Expression::Compare(comparison, bound.with_name(term), value.clone());
        if bound.is_opaque {
            return Ok(opaque(source));
        }
        let is_string = bound.result == Some(PrimitiveType::String);
        if comparison.is_for_strings() && !is_string {
            return Err(ScanError::validation(format!(
                "Term for STARTS_WITH or NOT_STARTS_WITH must produce a string: {}",
                brief(&bound.name)
            )));
        }
        Ok(match resolve_comparison(comparison, bound.literal(value)?) {
            Resolved::Constant(all) => Predicate::Constant(all),
            // All values except null pass the comparison, and this column has no nulls.
            Resolved::Test(ValueTest::Is(Test::NotNull)) if bound.is_required => {
                Predicate::Constant(true)
            }
            Resolved::Test(test) => bound.leaf(test, source),
        })
    }

    fn bind_membership(&self, membership: Membership, term: &Term, values: &[Value]) -> Bound {
        let bound = self.find(term)?;
        let source = Expression::Among(membership, bound.with_name(term), values.to_vec());
        if bound.is_opaque {
            return Ok(opaque(source));
        }
        let mut set = Vec::with_capacity(values.len());
        for value in values {
            // A literal that is not a value of the column's type equals no value of the column.
            if let Literal::Value(datum) = bound.literal(value)? {
                set.push((datum, value.clone()));
            }
        }
        let (set, literals) = DatumSet::with_literals(set);
        if set.is_empty() {
            return Ok(Predicate::Constant(membership == Membership::NotIn));
        }
        Ok(bound.leaf_of_set(ValueTest::Among(membership, set), literals, source))
    }

    fn find(&self, term: &Term) -> Result<BoundTerm, ScanError> {
        match term {
            Term::Column(name) => self.find_column(name, self.id_of(name)?),
            Term::Field(id) => self.find_column(&id.to_string(), Some(*id)),
            Term::Transform(transform, inner) => {
                let bound = self.find(inner)?;
                let source = bound.column.primitive.as_ref();
                let result = source.and_then(|source| transform.result_type(source));
                match (transform, result) {
                    (Transform::Void | Transform::Unknown(_), _) => {
                        Ok(BoundTerm { is_opaque: true, ..bound })
                    }
                    (_, None) => Err(ScanError::validation(format!(
                        "Cannot bind: {transform} cannot transform values of column {}",
                        brief(&bound.name)
                    ))),
                    (_, result) => Ok(BoundTerm { transform: transform.clone(), result, ..bound }),
                }
            }
        }
    }

    fn id_of(&self, name: &str) -> Result<Option<i32>, ScanError> {
        if self.case_sensitive {
            return Ok(self.index.id_by_name(name));
        }
        let ids = self.index.ids_by_name_ignoring_case(name);
        if ids.len() > 1 {
            return Err(ScanError::validation(format!(
                "Cannot find field '{}': several fields have this name in another case",
                brief(name)
            )));
        }
        Ok(ids.first().copied())
    }

    fn find_column(&self, name: &str, id: Option<i32>) -> Result<BoundTerm, ScanError> {
        let Some(found) = id.and_then(|id| self.index.field(id)) else {
            let all = Type::Struct(self.schema.fields().to_vec());
            return Err(ScanError::validation(format!(
                "Cannot find field '{}' in struct: {}",
                brief(name),
                brief(all)
            )));
        };
        let field = found.field;
        let ancestors = || self.index.ancestors(field.id).map(|parent| parent.field);
        let primitive = field.field_type.as_primitive().cloned();
        let is_required = |field: &NestedField| field.required;
        Ok(BoundTerm {
            column: BoundColumn {
                field_id: field.id,
                primitive: primitive.clone(),
                is_nested: found.parent.is_some(),
            },
            name: found.name.clone(),
            transform: Transform::Identity,
            result: primitive,
            is_required: is_required(field) && ancestors().all(is_required),
            is_opaque: ancestors().any(|parent| !parent.field_type.is_struct()),
        })
    }
}

impl BoundTerm {
    /// Returns the term as the client wrote it, but with the name of the column instead of its
    /// field id, because older clients cannot read field ids.
    fn with_name(&self, term: &Term) -> Term {
        match term {
            Term::Field(_) => Term::Column(self.name.clone()),
            Term::Column(_) => term.clone(),
            Term::Transform(transform, inner) => {
                Term::Transform(transform.clone(), Box::new(self.with_name(inner)))
            }
        }
    }

    fn leaf(self, test: ValueTest, source: Expression) -> Predicate<ColumnPredicate> {
        self.leaf_of_set(test, Vec::new(), source)
    }

    fn leaf_of_set(
        self,
        test: ValueTest,
        literals: Vec<Value>,
        source: Expression,
    ) -> Predicate<ColumnPredicate> {
        let Self { column, transform, .. } = self;
        let test = Some(Arc::new(ColumnTest { column, transform, test, literals }));
        Predicate::Leaf(ColumnPredicate { test, source: Arc::new(source) })
    }

    fn literal(&self, value: &Value) -> Result<Literal, ScanError> {
        let primitive = self.result.as_ref();
        primitive.and_then(|primitive| Literal::parse(primitive, value)).ok_or_else(|| {
            let result = primitive.map_or_else(|| "(not primitive)".to_owned(), brief);
            ScanError::validation(format!(
                "Invalid value for conversion to type {result}: {} (column {})",
                brief(value),
                brief(&self.name)
            ))
        })
    }
}

/// Returns a predicate that only the client can evaluate.
fn opaque(source: Expression) -> Predicate<ColumnPredicate> {
    Predicate::Leaf(ColumnPredicate { test: None, source: Arc::new(source) })
}

/// A comparison with a literal, after the literal was converted.
enum Resolved {
    Constant(bool),
    Test(ValueTest),
}

fn resolve_comparison(comparison: Comparison, literal: Literal) -> Resolved {
    use Comparison as C;
    let not_null = || Resolved::Test(ValueTest::Is(Test::NotNull));
    match (comparison, literal) {
        // Every string starts with the empty string.
        (C::StartsWith, Literal::Value(prefix)) if is_empty(&prefix) => not_null(),
        (C::NotStartsWith, Literal::Value(prefix)) if is_empty(&prefix) => {
            Resolved::Test(ValueTest::Is(Test::IsNull))
        }
        (comparison, Literal::Value(value)) => {
            Resolved::Test(ValueTest::Compare(comparison, value))
        }
        (C::Lt | C::LtEq, Literal::After(value)) => {
            Resolved::Test(ValueTest::Compare(C::LtEq, value))
        }
        (C::Gt | C::GtEq, Literal::After(value)) => {
            Resolved::Test(ValueTest::Compare(C::Gt, value))
        }
        (C::Lt | C::LtEq, Literal::AboveMax) | (C::Gt | C::GtEq, Literal::BelowMin) => not_null(),
        (C::NotEq | C::NotStartsWith, _) => Resolved::Constant(true),
        _ => Resolved::Constant(false),
    }
}

fn is_empty(value: &Datum) -> bool {
    value.as_bytes().is_some_and(<[u8]>::is_empty)
}
