//! What a request names: an existing table or view, or one to be created.

use std::collections::{BTreeMap, BTreeSet};

use slateberg_authz::commit_kind::CommitKind;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;

/// A table or view that a request names.
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
    /// A registration: the properties and the location are in a metadata file that was not read yet.
    pub(crate) fn registered(kind: TabularKind, ident: &'a TabularIdent) -> Self {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        Self { kind, ident, properties: NONE, location: None }
    }
}

/// The purpose of a commit.
pub(crate) enum Intent {
    /// Creates the table.
    Create,
    /// Changes it, in these ways.
    Change(BTreeSet<CommitKind>),
}
