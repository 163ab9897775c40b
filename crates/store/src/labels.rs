//! Records of the labels of tables, views and their columns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The labels of a table or view and of its columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelsRecord {
    /// Random id of this state of the labels. Each change creates a new one, which the ETag of a
    /// response contains.
    pub revision: Uuid,
    /// The labels of the table or view itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub object: BTreeMap<String, String>,
    /// The labels of columns, by field id. No column has an empty set of labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<i32, BTreeMap<String, String>>,
}
