//! Bodies of `/management/v1/labels`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /management/v1/labels`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateLabelsRequest {
    /// A table or view, such as `table:prod/sales/orders`.
    #[schema(pattern = "^(table|view):.+$")]
    pub resource: String,
    /// Id of a column. Without `field-id` and `column`, the labels of the table or view itself are
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_id: Option<i32>,
    /// Full name of a column in the current schema, such as `customer.email`. At most one of
    /// `field-id` and `column` is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Labels to set. A key has 1 to 128 bytes, and a value has at most 1,024 bytes. A table, view or
    /// column has at most 50 labels. The labels of a table or view and of all its columns together
    /// have at most 65,536 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Keys of labels to remove. Keys that do not exist are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// The labels of a table or view and of its columns.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Labels {
    /// The table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Labels of the table or view itself.
    pub object_labels: BTreeMap<String, String>,
    /// Labels of columns, ordered by field id. Columns without labels are omitted.
    pub fields: Vec<FieldLabels>,
}

/// The labels of a column.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FieldLabels {
    /// Id of the column.
    pub field_id: i32,
    /// Full name of the column in the current schema; null if the current schema does not contain
    /// the column.
    #[schema(required)]
    pub column: Option<String>,
    /// Labels of the column.
    pub labels: BTreeMap<String, String>,
}
