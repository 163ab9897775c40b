//! Requirements: conditions of a commit on the state of the table.
//!
//! The messages are those of the reference implementation, because clients and the compatibility
//! kit test for them.

use serde_json::value::RawValue;
use uuid::Uuid;

use super::members::{Members, RawMembers, brief};
use super::refusal::Refusal;
use super::table::TableMetadata;
use super::table_json::parse_uuid;

/// One requirement of a commit (`TableRequirement` in the REST specification).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableRequirement {
    /// `assert-create`: the table does not exist.
    NotExist,
    /// `assert-table-uuid`
    UuidMatch {
        /// The UUID that the table must have.
        uuid: Uuid,
    },
    /// `assert-ref-snapshot-id`
    RefSnapshotIdMatch {
        /// The name of the branch or tag.
        r#ref: String,
        /// The snapshot to which the branch or tag must point. `None` if the branch or tag must not
        /// exist.
        snapshot_id: Option<i64>,
    },
    /// `assert-last-assigned-field-id`
    LastAssignedFieldIdMatch {
        /// The highest column id that was ever assigned.
        last_assigned_field_id: i32,
    },
    /// `assert-current-schema-id`
    CurrentSchemaIdMatch {
        /// The id of the current schema.
        current_schema_id: i32,
    },
    /// `assert-last-assigned-partition-id`
    LastAssignedPartitionIdMatch {
        /// The highest partition field id that was ever assigned.
        last_assigned_partition_id: i32,
    },
    /// `assert-default-spec-id`
    DefaultSpecIdMatch {
        /// The id of the default partition spec.
        default_spec_id: i32,
    },
    /// `assert-default-sort-order-id`
    DefaultSortOrderIdMatch {
        /// The id of the default sort order.
        default_sort_order_id: i32,
    },
}

/// Parses one requirement. Refuses an unknown `type`, as the specification requires.
pub fn parse_requirement(raw: &RawValue) -> Result<TableRequirement, Refusal> {
    let members = RawMembers::parse("update requirement", raw.get())?;
    let kind = members
        .opt_string("type")?
        .ok_or_else(|| Refusal::invalid("Cannot parse update requirement. Missing field: type"))?;
    Ok(match kind.to_ascii_lowercase().as_str() {
        "assert-create" => TableRequirement::NotExist,
        "assert-table-uuid" => {
            TableRequirement::UuidMatch { uuid: parse_uuid("uuid", &members.string("uuid")?)? }
        }
        "assert-ref-snapshot-id" => TableRequirement::RefSnapshotIdMatch {
            r#ref: members.string("ref")?,
            snapshot_id: members.opt_i64("snapshot-id")?,
        },
        "assert-last-assigned-field-id" => TableRequirement::LastAssignedFieldIdMatch {
            last_assigned_field_id: members.i32("last-assigned-field-id")?,
        },
        "assert-current-schema-id" => TableRequirement::CurrentSchemaIdMatch {
            current_schema_id: members.i32("current-schema-id")?,
        },
        "assert-last-assigned-partition-id" => TableRequirement::LastAssignedPartitionIdMatch {
            last_assigned_partition_id: members.i32("last-assigned-partition-id")?,
        },
        "assert-default-spec-id" => TableRequirement::DefaultSpecIdMatch {
            default_spec_id: members.i32("default-spec-id")?,
        },
        "assert-default-sort-order-id" => TableRequirement::DefaultSortOrderIdMatch {
            default_sort_order_id: members.i32("default-sort-order-id")?,
        },
        "assert-view-uuid" => {
            return Err(Refusal::invalid("Cannot validate assert-view-uuid against a table"));
        }
        _ => {
            return Err(Refusal::invalid(format!(
                "Cannot parse update requirement. Unrecognized type: {}",
                brief(kind)
            )));
        }
    })
}

/// Checks all requirements against the table. `metadata` is `None` if the table does not exist.
///
/// A combination of `assert-create` with other requirements is always invalid, even if the table
/// does not exist.
pub fn check_requirements(
    metadata: Option<&TableMetadata>,
    requirements: &[TableRequirement],
) -> Result<(), Refusal> {
    let creates = |requirement: &TableRequirement| *requirement == TableRequirement::NotExist;
    if requirements.iter().any(creates) && !requirements.iter().all(creates) {
        let others: Vec<&str> =
            requirements.iter().filter(|r| !creates(r)).map(requirement_type).collect();
        return Err(Refusal::invalid(format!(
            "Invalid create requirements: [{}]",
            brief(others.join(", "))
        )));
    }
    requirements.iter().try_for_each(|requirement| match metadata {
        Some(metadata) => check(metadata, requirement),
        None if creates(requirement) => Ok(()),
        None => Err(Refusal::conflict("Requirement failed: table does not exist")),
    })
}

fn check(table: &TableMetadata, requirement: &TableRequirement) -> Result<(), Refusal> {
    match requirement {
        TableRequirement::NotExist => {
            Err(Refusal::conflict("Requirement failed: table already exists"))
        }
        TableRequirement::UuidMatch { uuid } if *uuid != table.table_uuid => {
            Err(Refusal::conflict(format!(
                "Requirement failed: UUID does not match: expected {} != {uuid}",
                table.table_uuid
            )))
        }
        TableRequirement::UuidMatch { .. } => Ok(()),
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } => {
            check_ref(table, r#ref, *snapshot_id)
        }
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id } => {
            equal("last assigned field id", *last_assigned_field_id, table.last_column_id)
        }
        TableRequirement::CurrentSchemaIdMatch { current_schema_id } => {
            equal("current schema", *current_schema_id, table.current_schema_id)
        }
        TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id } => equal(
            "last assigned partition id",
            *last_assigned_partition_id,
            table.last_partition_id,
        ),
        TableRequirement::DefaultSpecIdMatch { default_spec_id } => {
            equal("default partition spec", *default_spec_id, table.default_spec_id)
        }
        TableRequirement::DefaultSortOrderIdMatch { default_sort_order_id } => {
            equal("default sort order", *default_sort_order_id, table.default_sort_order_id)
        }
    }
}

fn check_ref(table: &TableMetadata, name: &str, expected: Option<i64>) -> Result<(), Refusal> {
    let text = match (table.refs.get(name), expected) {
        (None, None) => return Ok(()),
        (Some(found), Some(expected)) if found.snapshot_id == expected => return Ok(()),
        (Some(found), None) => {
            let kind = found.kind.name();
            format!("Requirement failed: {kind} {} was created concurrently", brief(name))
        }
        (Some(found), Some(expected)) => {
            let kind = found.kind.name();
            format!(
                "Requirement failed: {kind} {} has changed: expected id {expected} != {}",
                brief(name),
                found.snapshot_id
            )
        }
        (None, Some(expected)) => format!(
            "Requirement failed: branch or tag {} is missing, expected {expected}",
            brief(name)
        ),
    };
    Err(Refusal::conflict(text))
}

fn equal<T: PartialEq + std::fmt::Display>(
    what: &str,
    expected: T,
    found: T,
) -> Result<(), Refusal> {
    if expected == found {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "Requirement failed: {what} changed: expected id {expected} != {found}"
    )))
}

pub(super) fn requirement_type(requirement: &TableRequirement) -> &'static str {
    match requirement {
        TableRequirement::NotExist => "assert-create",
        TableRequirement::UuidMatch { .. } => "assert-table-uuid",
        TableRequirement::RefSnapshotIdMatch { .. } => "assert-ref-snapshot-id",
        TableRequirement::LastAssignedFieldIdMatch { .. } => "assert-last-assigned-field-id",
        TableRequirement::CurrentSchemaIdMatch { .. } => "assert-current-schema-id",
        TableRequirement::LastAssignedPartitionIdMatch { .. } => {
            "assert-last-assigned-partition-id"
        }
        TableRequirement::DefaultSpecIdMatch { .. } => "assert-default-spec-id",
        TableRequirement::DefaultSortOrderIdMatch { .. } => "assert-default-sort-order-id",
    }
}

#[cfg(test)]
mod tests;
