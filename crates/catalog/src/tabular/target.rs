//! [`Target`] and [`Creation`]: the table or view of a request.

use std::collections::{BTreeMap, BTreeSet};

use slateberg_authz::commit_kind::CommitKind;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;

/// An existing table or view that a request names.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The warehouse that it is in.
    pub(crate) warehouse: &'a Warehouse,
    /// Table or view.
    pub(crate) kind: TabularKind,
    /// Its name.
    pub(crate) ident: &'a TabularIdent,
}

/// A table or view that a request creates.
#[derive(Clone, Copy)]
pub(crate) struct Creation<'a> {
    /// Table or view.
    pub(crate) kind: TabularKind,
    /// Its name.
    pub(crate) ident: &'a TabularIdent,
    /// Its properties.
    pub(crate) properties: &'a BTreeMap<String, String>,
    /// Its location, if the request has one.
    pub(crate) location: Option<&'a String>,
}

impl<'a> Creation<'a> {
    /// Returns a registration: the properties and the location are in a metadata file that is not
    /// read yet.
    pub(crate) fn registered(kind: TabularKind, ident: &'a TabularIdent) -> Self {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        Self { kind, ident, properties: NONE, location: None }
    }
}

/// The purpose of a commit.
pub(crate) enum Intent {
    /// Creates the table.
    Create,
    /// Changes it. Holds the kinds of change.
    Change(BTreeSet<CommitKind>),
}
