//! [`Texts`]: the columns and comments of an object, and their terms in the index.

use std::borrow::Cow;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::columns::{ColumnText, columns_of};
use super::field_index::{MissingTexts, TermId};
use super::name_index::NameIndex;
use super::texts::DocumentTexts;
use crate::{Error, Result};
use slateberg_base::error_chain::chain;

/// Part of the maximum size of the index up to which it gets further comments. The rest is for
/// columns.
const COMMENTS_PART: (usize, usize) = (3, 4);

/// The texts of a table, view or namespace.
pub(super) struct Texts<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) comment: Option<Cow<'a, str>>,
}

/// The columns of a table, view or namespace, with their comments.
pub(super) enum Columns<'a> {
    /// The terms of columns that the index contains. A namespace has none.
    Terms(Vec<TermId>),
    /// The columns of a schema that is not known yet.
    New(Vec<ColumnText<'a>>),
    /// The metadata cannot be read.
    Unreadable,
}

impl<'a> Texts<'a> {
    /// Returns the texts of a namespace.
    pub(super) fn of_namespace(comment: Option<Cow<'a, str>>) -> Self {
        Self { columns: Columns::Terms(Vec::new()), comment }
    }

    /// Reads the texts in the metadata of a table or view. `known` returns the terms of a schema
    /// that was read before. If the metadata cannot be read, this is logged: one document must not
    /// prevent the search for the columns of others.
    pub(super) fn parse(
        id: Uuid,
        json: &'a [u8],
        known: impl FnOnce(&RawValue) -> Option<Vec<TermId>>,
    ) -> Self {
        let read = || {
            let DocumentTexts { schema, comment } = DocumentTexts::parse(json)?;
            let columns = match schema.and_then(known) {
                Some(terms) => Columns::Terms(terms),
                None => Columns::New(schema.map(columns_of).transpose()?.unwrap_or_default()),
            };
            Ok(Self { columns, comment })
        };
        read().unwrap_or_else(|error: Error| {
            tracing::warn!(
                %id,
                error = chain(&error),
                "cannot read the columns of a table or view: searches do not find them"
            );
            Self { columns: Columns::Unreadable, comment: None }
        })
    }
}

/// The terms of an object.
pub(super) struct Terms {
    pub(super) columns: Vec<TermId>,
    /// Whether `columns` contains all columns and their comments.
    pub(super) is_complete: bool,
    comment: Option<TermId>,
}

impl Terms {
    /// Returns the terms of the columns, and of the comment of the object.
    pub(super) fn all(self) -> Vec<TermId> {
        let mut all = self.columns;
        all.extend(self.comment);
        all
    }
}

/// Returns the texts for which the index has no room.
pub(super) fn without_room(index: &NameIndex, bytes_max: usize) -> MissingTexts {
    let (bytes, (part, whole)) = (index.bytes(), COMMENTS_PART);
    MissingTexts { columns: bytes >= bytes_max, comments: bytes >= bytes_max / whole * part }
}

/// Returns the terms of the texts of an object, as far as the index has room for them.
pub(super) fn terms_of(index: &mut NameIndex, texts: Texts<'_>, bytes_max: usize) -> Result<Terms> {
    let without = without_room(index, bytes_max);
    let (mut missing, mut comment) = (MissingTexts::default(), None);
    let columns = match texts.columns {
        Columns::Terms(terms) if without.columns => {
            missing.columns = !terms.is_empty();
            missing.comments = index.fields().have_comments(&terms);
            Vec::new()
        }
        Columns::Terms(terms) => terms,
        Columns::New(columns) => {
            let has_comments = columns.iter().any(|column| column.comment.is_some());
            missing.comments = without.comments && has_comments;
            missing.columns = without.columns && !columns.is_empty();
            let columns: &[_] = if without.columns { &[] } else { &columns };
            index.fields_mut().columns(columns, !without.comments)?
        }
        Columns::Unreadable => {
            missing = MissingTexts { columns: true, comments: true };
            Vec::new()
        }
    };
    let is_complete = missing == MissingTexts::default();
    match &texts.comment {
        Some(_) if without.comments => missing.comments = true,
        Some(text) => comment = Some(index.fields_mut().comment(text)?),
        None => {}
    }
    index.fields_mut().set_missing(missing);
    Ok(Terms { columns, is_complete, comment })
}
