//! [`Texts`]: the columns and comments of an object, and their terms in the index.

use std::borrow::Cow;

use super::columns::{ColumnText, columns_of};
use super::field_index::{MissingTexts, TermId};
use super::name_index::NameIndex;
use super::texts::DocumentTexts;
use crate::Result;

/// Part of the maximum size of the index up to which it gets further comments. The rest is for
/// columns.
const COMMENTS_PART: (usize, usize) = (3, 4);

/// Returns the texts for which the index has no room.
fn without_room(index: &NameIndex, bytes_max: usize) -> MissingTexts {
    let (bytes, (part, whole)) = (index.bytes(), COMMENTS_PART);
    MissingTexts { columns: bytes >= bytes_max, comments: bytes >= bytes_max / whole * part }
}

/// The texts of a table, view or namespace.
pub(super) struct Texts<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) comment: Option<Cow<'a, str>>,
}

/// The columns of a table, view or namespace, with their comments.
pub(super) enum Columns<'a> {
    /// The terms of these columns. A namespace has none.
    Terms(Vec<TermId>),
    /// The columns of a schema that is not known yet.
    New(Vec<ColumnText<'a>>),
}

impl<'a> Texts<'a> {
    /// Reads the texts in the metadata of a table or view.
    pub(super) fn parse(json: &'a [u8]) -> Result<Self> {
        let DocumentTexts { schema, comment } = DocumentTexts::parse(json)?;
        let columns = schema.map(columns_of).transpose()?.unwrap_or_default();
        Ok(Self { columns: Columns::New(columns), comment })
    }
}

/// Returns the terms of the texts of an object, as far as the index has room for them. `remember`
/// receives the terms of a new schema, if they are complete.
pub(super) fn terms_of(
    index: &mut NameIndex,
    texts: &Texts<'_>,
    bytes_max: usize,
    remember: impl FnOnce(&[TermId]),
) -> Result<Vec<TermId>> {
    let without = without_room(index, bytes_max);
    let mut missing = MissingTexts::default();
    let mut terms = match &texts.columns {
        Columns::Terms(terms) if !without.columns => terms.clone(),
        Columns::Terms(terms) => {
            missing.columns = !terms.is_empty();
            Vec::new()
        }
        Columns::New(columns) => {
            let has_comments = columns.iter().any(|column| column.comment.is_some());
            missing.comments = without.comments && has_comments;
            missing.columns = without.columns && !columns.is_empty();
            let columns: &[_] = if without.columns { &[] } else { columns };
            let terms = index.fields_mut().columns(columns, !without.comments)?;
            if missing == MissingTexts::default() {
                remember(&terms);
            }
            terms
        }
    };
    match &texts.comment {
        Some(_) if without.comments => missing.comments = true,
        Some(comment) => terms.push(index.fields_mut().comment(comment)?),
        None => {}
    }
    index.fields_mut().set_missing(missing);
    Ok(terms)
}
