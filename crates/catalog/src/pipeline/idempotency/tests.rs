//! Tests of the codes of rejections in idempotency records.

use super::*;
use crate::error::{MissingResource, NameConflict};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_objects::stores::BadStorage;

#[test]
fn rejection_codes_in_records_are_stable() {
    let codes = [
        (Kind::NoSuchWarehouse, "NoSuchWarehouse"),
        (Kind::NoSuchNamespace, "NoSuchNamespace"),
        (Kind::NoSuchTable, "NoSuchTable"),
        (Kind::NoSuchView, "NoSuchView"),
        (Kind::NoSuchFunction, "NoSuchFunction"),
        (Kind::NoSuchFile, "NoSuchFile"),
        (Kind::NoSuchJob, "NoSuchJob"),
        (Kind::NoSuchPolicy, "NoSuchPolicy"),
        (Kind::NoSuchCheckpoint, "NoSuchCheckpoint"),
        (Kind::NoSuchDropped, "NoSuchDropped"),
        (Kind::NoSuchProtection, "NoSuchProtection"),
        (Kind::NoSuchWebhook, "NoSuchWebhook"),
        (Kind::NoSuchCursor, "NoSuchCursor"),
        (Kind::AlreadyExists, "AlreadyExists"),
        (Kind::NamespaceNotEmpty, "NamespaceNotEmpty"),
        (Kind::WarehouseNotEmpty, "WarehouseNotEmpty"),
        (Kind::Conflict, "Conflict"),
        (Kind::CommitFailed, "CommitFailed"),
        (Kind::Invalid, "Invalid"),
        (Kind::Unprocessable, "Unprocessable"),
    ];
    for (kind, code) in codes {
        let (known, prefix) = rejection_code(kind).expect("it is recorded");
        assert_eq!(known, code);
        let replayed = rejection_from(code, "why");
        assert_eq!((replayed.kind(), replayed.to_string()), (kind, format!("{prefix}why")));
        assert!(replayed.is_final() && !replayed.is_failure(), "{replayed:?}");
    }
}

#[test]
fn rejection_that_may_change_has_no_code() {
    let refusals = [
        Error::Forbidden("why".to_owned()),
        Error::Unusable(BadStorage("why".to_owned())),
        Error::unknown("why"),
        Error::unavailable("why", "why"),
        Error::internal("why"),
    ];
    for refusal in refusals {
        assert_eq!(rejection_code(refusal.kind()), None, "{refusal:?}");
    }
}

#[test]
fn recorded_rejection_has_the_original_message() {
    let ident = |name: &str| TabularIdent {
        namespace: NamespaceIdent(vec!["sales".to_owned()]),
        name: name.to_owned(),
    };
    let (ident, other) = (ident("orders"), ident("returns"));
    let taken = Error::taken(TabularKind::Table, TabularKind::View, &ident);
    assert_eq!(taken.to_string(), format!("View with same name already exists: {ident}"));
    let (from, to) = (Box::new(ident), Box::new(other));
    let message = format!("Cannot rename {from} to {to}. Table already exists");
    let taken =
        Error::AlreadyExists(NameConflict::Rename { from, to, taken_by: TabularKind::Table });
    let replayed = rejection_from("AlreadyExists", &message);
    assert_eq!((taken.to_string(), &taken), (message, &replayed));
}

#[test]
fn a_record_omits_the_prefix_of_a_missing_resource() {
    let id = "7".to_owned();
    let missing = [
        Error::NoSuchWarehouse("w".to_owned()),
        Error::NotFound(MissingResource::Job(id.clone())),
        Error::NotFound(MissingResource::Checkpoint(id.clone())),
        Error::NotFound(MissingResource::Dropped(id)),
    ];
    for error in missing {
        let (code, message) = recorded_rejection(&error).expect("it is recorded");
        assert!(!message.contains("does not exist"), "{message}");
        assert_eq!(rejection_from(code, &message), error);
    }
}

#[test]
fn unknown_rejection_code_is_an_internal_error() {
    assert!(matches!(rejection_from("NoSuchThing", ""), Error::Internal { .. }));
}
