//! Bodies that create and change tables and views.

use rand::RngExt;
use serde_json::{Value, json};

use super::grammar::Grammar;
use crate::support::table::{create_table, schema, set_property};
use crate::support::view::{replace_query, view_version};

impl Grammar {
    pub(super) fn new_table(&mut self) -> Value {
        let mut body = create_table(self.name());
        let version = self.rng.random_range(1..=3).to_string();
        body["properties"] = json!({ "format-version": version });
        if self.one_of(2) {
            let transform = self.pick(&["identity", "bucket[4]", "truncate[3]", "void", "day"]);
            body["partition-spec"] = json!({ "fields": [
                { "source-id": 1, "name": "p", "transform": transform } ]});
        }
        body["stage-create"] = json!(self.one_of(8));
        body
    }

    pub(super) fn commit(&mut self) -> Value {
        let updates: Vec<_> =
            (0..self.rng.random_range(1..4)).flat_map(|_| self.update()).collect();
        let requirements: Vec<_> =
            (0..self.rng.random_range(0..2)).map(|_| self.requirement()).collect();
        json!({ "requirements": requirements, "updates": updates })
    }

    pub(super) fn view_commit(&mut self) -> Value {
        let updates = match self.rng.random_range(0..5) {
            0 => vec![set_property(self.name(), self.name())],
            1 => vec![json!({ "action": "set-current-view-version", "view-version-id": 1 })],
            2 => vec![json!({ "action": "add-view-version", "view-version": view_version("S") })],
            _ => replace_query(&format!("SELECT {}", self.rng.random_range(0..9))),
        };
        let requirement = json!({ "type": "assert-view-uuid", "uuid": self.seen_text() });
        let requirements = if self.one_of(8) { vec![requirement] } else { vec![] };
        json!({ "requirements": requirements, "updates": updates })
    }

    fn requirement(&mut self) -> Value {
        let id = self.rng.random_range(-1..3);
        match self.rng.random_range(0..8) {
            0 => json!({ "type": "assert-create" }),
            1 => json!({ "type": "assert-table-uuid", "uuid": self.seen_text() }),
            2 => json!({ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": id }),
            3 => {
                json!({ "type": "assert-last-assigned-field-id", "last-assigned-field-id": id + 2 })
            }
            4 => json!({ "type": "assert-current-schema-id", "current-schema-id": id }),
            5 => json!({ "type": "assert-last-assigned-partition-id",
                         "last-assigned-partition-id": id + 999 }),
            6 => json!({ "type": "assert-default-spec-id", "default-spec-id": id }),
            _ => json!({ "type": "assert-default-sort-order-id", "default-sort-order-id": id }),
        }
    }

    fn snapshot(&mut self) -> Vec<Value> {
        self.sequence += 1;
        let id = self.rng.random_range(1..40_i64);
        let mut snapshot = json!({
            "snapshot-id": id, "sequence-number": self.sequence,
            "timestamp-ms": 1_700_000_000_000_i64 + self.sequence, "manifest-list": "list.avro",
            "summary": { "operation": "append" }, "schema-id": 0,
        });
        if self.one_of(3) {
            snapshot["first-row-id"] = json!(self.sequence * 10);
            snapshot["added-rows"] = json!(5);
        }
        let main = json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                           "snapshot-id": id });
        vec![json!({ "action": "add-snapshot", "snapshot": snapshot }), main]
    }

    fn update(&mut self) -> Vec<Value> {
        let id = self.rng.random_range(-1..3);
        let snapshot_id = self.rng.random_range(1..40_i64);
        let mut wider = schema();
        wider["fields"][1]["name"] = json!(self.name());
        vec![match self.rng.random_range(0..26) {
            0..5 => return self.snapshot(),
            5 => json!({ "action": "assign-uuid", "uuid": self.seen_text() }),
            6 => json!({ "action": "upgrade-format-version", "format-version": id + 1 }),
            7 => json!({ "action": "add-schema", "schema": wider }),
            8 => json!({ "action": "set-current-schema", "schema-id": id }),
            9 => json!({ "action": "add-spec", "spec": { "fields": [
                { "source-id": 1, "name": self.name(), "transform": "bucket[7]" } ]}}),
            10 => json!({ "action": "set-default-spec", "spec-id": id }),
            11 => json!({ "action": "add-sort-order", "sort-order": { "order-id": 1, "fields": [
                { "source-id": 2, "transform": "identity", "direction": "asc",
                  "null-order": "nulls-last" } ]}}),
            12 => json!({ "action": "set-default-sort-order", "sort-order-id": id }),
            13 => json!({ "action": "set-snapshot-ref", "ref-name": self.name(), "type":
                self.pick(&["branch", "tag"]), "snapshot-id": snapshot_id }),
            14 => json!({ "action": "remove-snapshots", "snapshot-ids": [snapshot_id] }),
            15 => json!({ "action": "remove-snapshot-ref", "ref-name": self.name() }),
            16 => json!({ "action": "set-location", "location": self.seen_text() }),
            17..20 => set_property(self.name(), self.name()),
            20 => json!({ "action": "remove-properties", "removals": [self.name()] }),
            21 => json!({ "action": "set-statistics", "statistics": { "snapshot-id": snapshot_id,
                "statistics-path": "s.puffin", "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1, "blob-metadata": [] }}),
            22 => json!({ "action": "remove-schemas", "schema-ids": [id] }),
            23 => json!({ "action": "remove-partition-specs", "spec-ids": [id] }),
            24 => json!({ "action": "add-encryption-key", "encryption-key": {
                "key-id": self.name(), "encrypted-key-metadata": "AAEC" }}),
            _ => set_property(
                self.pick(&[
                    "write.metadata.path",
                    "write.metadata.compression-codec",
                    "write.metadata.previous-versions-max",
                    "gc.enabled",
                ]),
                &self.seen_text(),
            ),
        }]
    }
}
