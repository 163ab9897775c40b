//! Masks: transformations that a reader must apply to a column's values before it shows them (the
//! actions of the specification's `required-column-projections`).

use std::fmt;

use super::types::{NestedField, PrimitiveType, Type};

/// A transformation of a column's values. Only [`Mask::MaskToFixedValue`] changes null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mask {
    /// Replaces digits with `n` and all other characters except some punctuation with `x`.
    MaskAlphanum,
    /// Replaces every value, also null, with one fixed value of the column's type.
    MaskToFixedValue,
    /// Replaces every value with null.
    ReplaceWithNull,
    /// Like [`Mask::MaskAlphanum`], but does not change the first four characters.
    ShowFirst4,
    /// Like [`Mask::MaskAlphanum`], but does not change the last four characters.
    ShowLast4,
    /// Truncates to the start of the year.
    TruncateToYear,
    /// Truncates to the start of the month.
    TruncateToMonth,
    /// Replaces a value with a hash that is always the same.
    Sha256Global,
    /// Replaces a value with a hash that is the same only within one query.
    Sha256QueryLocal,
}

impl Mask {
    /// All masks.
    pub const ALL: [Self; 9] = [
        Self::MaskAlphanum,
        Self::MaskToFixedValue,
        Self::ReplaceWithNull,
        Self::ShowFirst4,
        Self::ShowLast4,
        Self::TruncateToYear,
        Self::TruncateToMonth,
        Self::Sha256Global,
        Self::Sha256QueryLocal,
    ];

    /// Returns the mask with this name.
    pub fn parse(mask_name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mask| mask.name() == mask_name)
    }

    /// Returns the name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaskAlphanum => "mask-alphanum",
            Self::MaskToFixedValue => "mask-to-fixed-value",
            Self::ReplaceWithNull => "replace-with-null",
            Self::ShowFirst4 => "show-first-4",
            Self::ShowLast4 => "show-last-4",
            Self::TruncateToYear => "truncate-to-year",
            Self::TruncateToMonth => "truncate-to-month",
            Self::Sha256Global => "sha-256-global",
            Self::Sha256QueryLocal => "sha-256-query-local",
        }
    }

    /// Whether the specification allows this mask for the field.
    pub(crate) fn applies_to(self, field: &NestedField) -> bool {
        let Type::Primitive(primitive) = &field.field_type else {
            return match self {
                Self::MaskToFixedValue => has_fixed_value(&field.field_type),
                Self::ReplaceWithNull => !field.required,
                _ => false,
            };
        };
        use PrimitiveType as P;
        match self {
            Self::MaskToFixedValue => has_fixed_value(&field.field_type),
            Self::ReplaceWithNull => !field.required,
            Self::MaskAlphanum | Self::ShowFirst4 | Self::ShowLast4 => *primitive == P::String,
            Self::TruncateToYear | Self::TruncateToMonth => matches!(
                primitive,
                P::Date | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs
            ),
            Self::Sha256Global | Self::Sha256QueryLocal => {
                matches!(primitive, P::String | P::Int | P::Long | P::Binary)
            }
        }
    }

    /// Returns the mask that shows only what both `self` and `other` show. If there are several
    /// such masks, returns the least strict one.
    ///
    /// Masks are ordered by the information that remains in their results: a month also contains
    /// its year, and [`Mask::ShowFirst4`] also shows what [`Mask::MaskAlphanum`] shows. If the
    /// results of two masks contain different information, such as a hash and a text that was
    /// masked by [`Mask::MaskAlphanum`], the result is [`Mask::MaskToFixedValue`].
    /// [`Mask::ReplaceWithNull`] is stricter than all other masks.
    pub(crate) fn stricter(self, other: Self) -> Self {
        use Mask as M;
        match (self, other) {
            (one, other) if one == other => one,
            (M::ReplaceWithNull, _) | (_, M::ReplaceWithNull) => M::ReplaceWithNull,
            (
                M::MaskAlphanum | M::ShowFirst4 | M::ShowLast4,
                M::MaskAlphanum | M::ShowFirst4 | M::ShowLast4,
            ) => M::MaskAlphanum,
            (M::TruncateToYear | M::TruncateToMonth, M::TruncateToYear | M::TruncateToMonth) => {
                M::TruncateToYear
            }
            (M::Sha256Global | M::Sha256QueryLocal, M::Sha256Global | M::Sha256QueryLocal) => {
                M::Sha256QueryLocal
            }
            _ => M::MaskToFixedValue,
        }
    }

    /// Whether this mask shows no more than `other` shows.
    pub(crate) fn is_as_strict_as(self, other: Self) -> bool {
        self.stricter(other) == self
    }
}

/// Whether the specification defines a fixed value for a type. The fixed value of a struct consists
/// of those of its fields.
fn has_fixed_value(of: &Type) -> bool {
    use PrimitiveType as P;
    match of {
        Type::Primitive(P::Unknown | P::Geometry { .. } | P::Geography { .. }) => false,
        Type::Primitive(_) | Type::Variant => true,
        Type::Struct(fields) => fields.iter().all(|field| has_fixed_value(&field.field_type)),
        Type::List(element) => has_fixed_value(&element.field_type),
        Type::Map(map) => {
            has_fixed_value(&map.key.field_type) && has_fixed_value(&map.value.field_type)
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_names_round_trip() {
        for mask in Mask::ALL {
            assert_eq!(Mask::parse(mask.name()), Some(mask));
        }
        for mask_name in
            ["", "Mask-Alphanum", "mask-to-default", "apply-expression", "show-first-5"]
        {
            assert_eq!(Mask::parse(mask_name), None, "{mask_name}");
        }
    }

    #[test]
    fn stricter_returns_the_least_strict_upper_bound() {
        for one in Mask::ALL {
            assert_eq!(one.stricter(one), one);
            for other in Mask::ALL {
                let both = one.stricter(other);
                assert_eq!(both, other.stricter(one));
                assert!(both.is_as_strict_as(one) && both.is_as_strict_as(other));
                for third in Mask::ALL {
                    assert_eq!(both.stricter(third), one.stricter(other.stricter(third)));
                    if third.is_as_strict_as(one) && third.is_as_strict_as(other) {
                        assert!(third.is_as_strict_as(both), "{one} {other} {third}");
                    }
                }
            }
        }
    }

    #[test]
    fn stricter_masks_apply_to_the_same_columns() {
        let text = |required| NestedField {
            id: 1,
            name: "c".to_owned(),
            required,
            field_type: Type::Primitive(PrimitiveType::String),
            doc: None,
            initial_default: None,
            write_default: None,
        };
        for required in [true, false] {
            let field = text(required);
            let fitting = || Mask::ALL.into_iter().filter(|mask| mask.applies_to(&field));
            assert_eq!(fitting().count(), if required { 6 } else { 7 });
            for one in fitting() {
                assert!(fitting().all(|other| one.stricter(other).applies_to(&field)));
            }
        }
    }
}
