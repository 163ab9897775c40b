//! Masks: what a reader has to do to the values of a column before anybody sees them (the actions of the
//! specification's `required-column-projections`).

use std::fmt;

use super::types::{NestedField, PrimitiveType, Type};

/// What is done to the values of a column. Null stays null under each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mask {
    /// Digits become `n`, all else but a little punctuation `x`.
    MaskAlphanum,
    /// One value of the column's type for all.
    MaskToFixedValue,
    /// Null for all.
    ReplaceWithNull,
    /// Like [`Mask::MaskAlphanum`], but for the first four characters.
    ShowFirst4,
    /// Like [`Mask::MaskAlphanum`], but for the last four characters.
    ShowLast4,
    /// The first moment of the year.
    TruncateToYear,
    /// The first moment of the month.
    TruncateToMonth,
    /// A hash, the same everywhere and for ever.
    Sha256Global,
    /// A hash, the same within one query.
    Sha256QueryLocal,
}

impl Mask {
    /// All that there are.
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

    /// The mask of this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mask| mask.word() == word)
    }

    /// Its name in the specification.
    pub fn word(self) -> &'static str {
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

    /// Whether the specification lets it be applied to this field.
    pub fn applies_to(self, field: &NestedField) -> bool {
        let Type::Primitive(primitive) = &field.field_type else {
            return match self {
                Self::MaskToFixedValue => true,
                Self::ReplaceWithNull => !field.required,
                _ => false,
            };
        };
        use PrimitiveType as P;
        match self {
            Self::MaskToFixedValue => true,
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

    /// The mask that shows no more than either does, and as much as it can.
    ///
    /// Masks are in order by what can be told from what they show: the month tells the year, the first four
    /// characters tell what mask-alphanum shows. Where two tell different things, such as a hash and a
    /// pattern, only a fixed value tells no more than both.
    pub fn stricter(self, other: Self) -> Self {
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

    /// Whether it shows no more than the other.
    pub fn is_as_strict_as(self, other: Self) -> bool {
        self.stricter(other) == self
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mask_has_a_name_that_it_is_read_by() {
        for mask in Mask::ALL {
            assert_eq!(Mask::parse(mask.word()), Some(mask));
        }
        for word in ["", "Mask-Alphanum", "mask-to-default", "apply-expression", "show-first-5"] {
            assert_eq!(Mask::parse(word), None, "{word}");
        }
    }

    #[test]
    fn of_any_masks_there_is_one_that_shows_no_more_than_each_and_as_much_as_it_can() {
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
    fn whatever_shows_less_is_a_mask_for_the_same_columns() {
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
