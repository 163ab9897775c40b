//! [`Target`] and [`Creation`]: the table or view of a request.

use std::collections::{BTreeMap, BTreeSet};

use slateberg_authz::commit_kind::CommitKind;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;

/// A table or view that a request uses but does not create.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The warehouse of the table or view.
    pub(crate) warehouse: &'a Warehouse,
    /// Table or view.
    pub(crate) kind: TabularKind,
    /// The name of the table or view.
    pub(crate) ident: &'a TabularIdent,
}

/// A table or view that a request creates.
#[derive(Clone, Copy)]
pub(crate) struct Creation<'a> {
    /// Table or view.
    pub(crate) kind: TabularKind,
    /// The name of the table or view.
    pub(crate) ident: &'a TabularIdent,
    /// The properties in the request.
    pub(crate) properties: &'a BTreeMap<String, String>,
    /// The location, if the request has one.
    pub(crate) location: Option<&'a String>,
}

impl<'a> Creation<'a> {
    /// Returns the target of a registration. It has no properties and no location yet, because
    /// these are in a metadata file that is read later.
    pub(crate) fn registered(kind: TabularKind, ident: &'a TabularIdent) -> Self {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        Self { kind, ident, properties: NONE, location: None }
    }
}

/// The purpose of a commit.
pub(crate) enum Intent {
    /// Creates the table.
    Create,
    /// Changes the table or view, with these kinds of changes.
    Change(BTreeSet<CommitKind>),
}
