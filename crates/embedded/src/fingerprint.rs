//! The fingerprint of a call, which is stored with its idempotency key.
//!
//! The fingerprint is a hash of the call's arguments and must stay the same across versions.
//! Therefore, arguments have fixed names that do not depend on Rust fields, and values are JSON as
//! defined by the REST specification.

use serde::Serialize;
use sha2::{Digest, Sha256};
use slateberg_base::hex::hex;
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::tables::TableChange;
use slateberg_catalog::views::CreateView;
use slateberg_catalog::views::ViewChange;

/// The arguments of a call, in the order in which they were added.
pub(super) struct RequestMembers(Vec<(&'static str, String)>);

impl RequestMembers {
    /// Creates a list with this argument.
    pub(super) fn of(name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        Self(Vec::new()).and(name, value)
    }

    /// Adds an argument.
    pub(super) fn and(mut self, name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        let value = serde_json::to_string(value).expect("requests can be serialized to JSON");
        self.0.push((name, value));
        self
    }

    /// Returns the SHA-256 of the call's name, warehouse and arguments, in hexadecimal.
    pub(super) fn fingerprint(&self, call: &str, warehouse: &str) -> String {
        let mut hash = Sha256::new();
        let members = self.0.iter().flat_map(|(name, value)| [*name, value.as_str()]);
        for part in [call, warehouse].into_iter().chain(members) {
            // Without the length, two requests whose concatenated parts are equal would have the
            // same hash.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize())
    }
}

// Each type is destructured with all its fields. So a new field causes a compile error until it is
// added here.

impl From<&CreateTable> for RequestMembers {
    fn from(request: &CreateTable) -> Self {
        let CreateTable { ident, location, schema, partition_spec, write_order, properties, stage } =
            request;
        Self::of("ident", ident)
            .and("location", location)
            .and("schema", schema)
            .and("partition-spec", partition_spec)
            .and("write-order", write_order)
            .and("properties", properties)
            .and("stage-create", stage)
    }
}

impl From<&RegisterTable> for RequestMembers {
    fn from(request: &RegisterTable) -> Self {
        let RegisterTable { ident, metadata_location, overwrite } = request;
        Self::of("ident", ident)
            .and("metadata-location", metadata_location)
            .and("overwrite", overwrite)
    }
}

impl From<&TableChange> for RequestMembers {
    fn from(change: &TableChange) -> Self {
        let TableChange { ident, requirements, updates, blind_append: _ } = change;
        Self::of("ident", ident).and("requirements", requirements).and("updates", updates)
    }
}

impl From<&CreateView> for RequestMembers {
    fn from(request: &CreateView) -> Self {
        let CreateView { ident, location, schema, view_version, properties } = request;
        Self::of("ident", ident)
            .and("location", location)
            .and("schema", schema)
            .and("view-version", view_version)
            .and("properties", properties)
    }
}

impl From<&ViewChange> for RequestMembers {
    fn from(change: &ViewChange) -> Self {
        let ViewChange { ident, requirements, updates, blind_append: _ } = change;
        Self::of("ident", ident).and("requirements", requirements).and("updates", updates)
    }
}

impl From<&[TableChange]> for RequestMembers {
    fn from(changes: &[TableChange]) -> Self {
        let members = changes.iter().flat_map(|change| Self::from(change).0);
        Self(members.collect())
    }
}

#[cfg(test)]
mod tests {
    use slateberg_model::ident::{NamespaceIdent, TabularIdent};
    use slateberg_model::requirement::TableRequirement;
    use slateberg_model::update::TableUpdate;

    use super::*;

    #[test]
    fn fingerprints_equal_those_of_earlier_versions() {
        let namespace = NamespaceIdent(vec!["sales".to_owned()]);
        let ident = TabularIdent { namespace, name: "orders".to_owned() };
        let drop = RequestMembers::of("ident", &ident).and("purge", &true);
        assert_eq!(
            drop.0,
            [
                ("ident", r#"{"namespace":["sales"],"name":"orders"}"#.to_owned()),
                ("purge", "true".to_owned())
            ]
        );
        assert_eq!(
            drop.fingerprint("drop_table", "prod"),
            "a745ed47145d21914fca50adb81558f8d8d69068c7f28da3c721f6aa06eb9eac"
        );

        let change = TableChange {
            ident,
            requirements: vec![
                TableRequirement::NotExist,
                TableRequirement::RefSnapshotIdMatch {
                    r#ref: "main".to_owned(),
                    snapshot_id: None,
                },
            ],
            updates: vec![TableUpdate::RemoveProperties { removals: vec!["a".to_owned()] }],
            blind_append: false,
        };
        let commit = RequestMembers::from(&change);
        assert_eq!(
            commit.0[1..],
            [
                (
                    "requirements",
                    r#"[{"type":"assert-create"},{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":null}]"#
                        .to_owned()
                ),
                ("updates", r#"[{"action":"remove-properties","removals":["a"]}]"#.to_owned())
            ]
        );
        assert_eq!(
            commit.fingerprint("commit_table", "prod"),
            "5c7b79831f6d9356173d6565c5f645d71c17698a78cc07b7ee00c7da28f8c86a"
        );
    }
}
