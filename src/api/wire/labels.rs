//! Converts labels from requests and to responses.

use serde_json::{Value, json};

use slateberg_catalog::labels::{LabelTarget, LabelUpdate, LabelsInfo, LabelsRecord};
use slateberg_management::labels::{FieldLabels, Labels, UpdateLabelsRequest};

/// Returns the change that a request describes. `None` if it names a column twice.
pub fn label_update(request: UpdateLabelsRequest) -> Option<LabelUpdate> {
    let UpdateLabelsRequest { resource, field_id, column, set, remove } = request;
    let target = match (field_id, column) {
        (None, None) => LabelTarget::Object,
        (Some(id), None) => LabelTarget::Field(id),
        (None, Some(name)) => LabelTarget::Column(name),
        (Some(_), Some(_)) => return None,
    };
    Some(LabelUpdate { resource, target, set, remove })
}

/// Returns the labels of a table or view.
pub fn labels(info: LabelsInfo) -> Labels {
    let LabelsInfo { resource, record, columns } = info;
    let (object, fields) = record.map(|it| (it.object, it.fields)).unwrap_or_default();
    let field = |(field_id, labels)| {
        let column = columns.get(&field_id).cloned();
        FieldLabels { field_id, column, labels }
    };
    Labels { resource, object_labels: object, fields: fields.into_iter().map(field).collect() }
}

/// Returns the labels in a `LoadTableResult` or `LoadViewResult`.
pub fn loaded_labels(record: &LabelsRecord) -> Value {
    let fields = record.fields.iter();
    let fields = fields.map(|(id, labels)| json!({ "field-id": id, "labels": labels }));
    json!({ "object-labels": record.object, "fields": fields.collect::<Vec<_>>() })
}
