//! Codes of rejections in idempotency records.

use super::*;

#[test]
fn a_refusal_in_a_record_has_the_code_that_it_always_had() {
    type Refusal = fn(String) -> Error;
    let codes: [(Refusal, &str); 15] = [
        (Error::NoSuchWarehouse, "NoSuchWarehouse"),
        (Error::NoSuchNamespace, "NoSuchNamespace"),
        (Error::NoSuchTable, "NoSuchTable"),
        (Error::NoSuchView, "NoSuchView"),
        (Error::NoSuchFile, "NoSuchFile"),
        (Error::NoSuchJob, "NoSuchJob"),
        (Error::NoSuchPolicy, "NoSuchPolicy"),
        (Error::NoSuchCheckpoint, "NoSuchCheckpoint"),
        (Error::AlreadyExists, "AlreadyExists"),
        (Error::NamespaceNotEmpty, "NamespaceNotEmpty"),
        (Error::WarehouseNotEmpty, "WarehouseNotEmpty"),
        (Error::Conflict, "Conflict"),
        (Error::CommitFailed, "CommitFailed"),
        (Error::Invalid, "Invalid"),
        (Error::Unprocessable, "Unprocessable"),
    ];
    for (refusal, code) in codes {
        let refusal = refusal("why".to_owned());
        assert!(refusal.is_final(), "{refusal:?}");
        assert_eq!(refusal_parts(&refusal), Some((code, "why".to_owned())));
        assert_eq!(refusal_from(code, "why".to_owned()), refusal);
    }
}

#[test]
fn a_refusal_that_may_be_another_next_time_has_no_code() {
    let refusals = [
        Error::Forbidden("why".to_owned()),
        Error::Unusable("why".to_owned()),
        Error::unknown("why"),
        Error::unavailable("why", "why"),
        Error::internal("why"),
    ];
    for refusal in refusals {
        assert_eq!(refusal_parts(&refusal), None, "{refusal:?}");
    }
}

#[test]
fn a_code_that_this_binary_does_not_know_is_an_internal_error() {
    assert!(matches!(refusal_from("NoSuchThing", String::new()), Error::Internal { .. }));
}
