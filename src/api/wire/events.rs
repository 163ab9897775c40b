//! Bodies of `POST /v1/{prefix}/events`, in the form of the proposed specification.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::watch::watch_event;
use crate::api::error::ApiError;
use slateberg_catalog::watch::{Change, ChangedKind, ChangedResource, Event};
use slateberg_management::watch::WatchEvent;
use slateberg_model::members::brief;

/// The operation types of the specification. A server names its other operations `x-...`.
const OPERATION_TYPES: [&str; 12] = [
    "create-table",
    "register-table",
    "update-table",
    "rename-table",
    "drop-table",
    "create-view",
    "update-view",
    "rename-view",
    "drop-view",
    "create-namespace",
    "update-namespace-properties",
    "drop-namespace",
];
/// The operation of an event after which the client must list the catalog again.
const RESYNC: &str = "x-resync";

/// Body of a request for events.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryEventsRequest {
    /// Token of an earlier response. Without it, the events begin with the oldest change.
    #[serde(default)]
    pub continuation_token: Option<String>,
    /// Maximum number of events.
    #[serde(default)]
    pub page_size: Option<i64>,
    /// Earliest time of the events, if there is no token.
    #[serde(default)]
    pub since_timestamp_ms: Option<i64>,
    #[serde(default)]
    operation_types: Option<Vec<String>>,
    #[serde(default)]
    catalog_objects_by_name: Option<Vec<Vec<String>>>,
    #[serde(default)]
    catalog_objects_by_uuid: Option<Vec<Uuid>>,
    #[serde(default)]
    object_types: Option<Vec<ObjectType>>,
    #[serde(default)]
    custom_filters: Option<BTreeMap<String, Value>>,
}

/// Type of an object in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ObjectType {
    Namespace,
    Table,
    View,
}

/// The events that a request selects. An event has to match each filter.
#[derive(Debug, Default)]
pub struct EventFilter {
    operation_types: Option<Vec<String>>,
    names: Option<Vec<Vec<String>>>,
    uuids: Option<Vec<Uuid>>,
    object_types: Option<Vec<ObjectType>>,
}

/// Response to a request for events.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryEventsResponse {
    /// Token with which the next request continues.
    pub continuation_token: String,
    /// Events, in the order of the changes.
    pub events: Vec<CatalogEvent>,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogEvent {
    event_id: String,
    request_id: String,
    request_event_count: usize,
    timestamp_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<Actor>,
    operation: Value,
}

/// The principal of an event.
#[derive(Debug, Serialize)]
struct Actor {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl QueryEventsRequest {
    /// Returns the filter of the request.
    pub fn filter(&mut self) -> Result<EventFilter, ApiError> {
        let is_known = |name: &String| {
            OPERATION_TYPES.contains(&name.as_str()) || name.strip_prefix("x-").is_some()
        };
        let unknown = self.operation_types.iter().flatten().find(|name| !is_known(name));
        if let Some(unknown) = unknown {
            return Err(ApiError::bad_request(format!(
                "Invalid operation type '{}': expected a name that begins with x-, or one of {}",
                brief(unknown),
                OPERATION_TYPES.join(", ")
            )));
        }
        if self.custom_filters.as_ref().is_some_and(|filters| !filters.is_empty()) {
            return Err(ApiError::bad_request("Invalid custom-filters: the server supports none"));
        }
        Ok(EventFilter {
            operation_types: self.operation_types.take(),
            names: self.catalog_objects_by_name.take(),
            uuids: self.catalog_objects_by_uuid.take(),
            object_types: self.object_types.take(),
        })
    }
}

impl EventFilter {
    fn selects(&self, resource: &ChangedResource, operation: &str) -> bool {
        let object_type = match resource.kind {
            ChangedKind::Table => Some(ObjectType::Table),
            ChangedKind::View => Some(ObjectType::View),
            ChangedKind::Namespace => Some(ObjectType::Namespace),
            ChangedKind::Function | ChangedKind::Warehouse => None,
        };
        let before = resource.renamed_from.as_ref();
        let before = before.map(|it| [&it.namespace[..], std::slice::from_ref(&it.name)].concat());
        let name = resource.name.iter().cloned();
        let now: Vec<String> = resource.namespace.iter().cloned().chain(name).collect();
        let is_at = |prefix: &Vec<String>| {
            now.starts_with(prefix) || before.as_ref().is_some_and(|it| it.starts_with(prefix))
        };
        let types = self.object_types.as_ref();
        self.operation_types.as_ref().is_none_or(|all| all.iter().any(|it| it == operation))
            && self.names.as_ref().is_none_or(|all| all.iter().any(is_at))
            && self
                .uuids
                .as_ref()
                .is_none_or(|all| resource.uuid.is_some_and(|it| all.contains(&it)))
            && types.is_none_or(|all| object_type.is_some_and(|it| all.contains(&it)))
    }
}

/// Adds the selected events to a page. `events` are those of complete transactions.
pub fn add_events(
    page: &mut Vec<CatalogEvent>,
    filter: &EventFilter,
    events: &[Event],
    now_ms: i64,
) {
    for transaction in events.split_inclusive(|event| event.position.is_some()) {
        let Some(position) = transaction.last().and_then(|last| last.position) else { continue };
        let id = position.event_id();
        for (index, event) in transaction.iter().enumerate() {
            let Some((operation, at_ms)) = selected(filter, event, now_ms) else { continue };
            let request_id = request_id(event, &id);
            let same_request =
                transaction.iter().filter(|it| self::request_id(it, &id) == request_id);
            let WatchEvent { principal, principal_name: name, .. } = watch_event(event.clone());
            page.push(CatalogEvent {
                event_id: format!("{id}.{index}"),
                request_id: request_id.to_owned(),
                request_event_count: same_request.count(),
                timestamp_ms: at_ms,
                actor: principal.map(|id| Actor { id, name }),
                operation,
            });
        }
    }
}

/// Returns the id of the request that caused an event. This is the id of the transaction if the
/// caller may not see the request, or if a background task caused the event.
fn request_id<'a>(event: &'a Event, transaction: &'a str) -> &'a str {
    let origin = event.change.as_ref().and_then(|change| change.origin.as_ref());
    origin.and_then(|origin| origin.request_id.as_deref()).unwrap_or(transaction)
}

/// Returns the operation and the time of an event. `None` if the filter does not select it.
fn selected(filter: &EventFilter, event: &Event, now_ms: i64) -> Option<(Value, i64)> {
    let Some(change) = &event.change else {
        return Some((json!({ "operation-type": RESYNC }), now_ms));
    };
    let resource = change.resource.as_ref()?;
    if resource.kind == ChangedKind::Warehouse {
        return None;
    }
    let operation_type = operation_type(event, change, resource);
    let is_selected = filter.selects(resource, &operation_type);
    is_selected.then(|| (operation(operation_type, change, resource), change.at_ms))
}

/// Returns the operation type of a change. A change that the specification does not know has the
/// name of its action, such as `x-undrop-table`.
fn operation_type(event: &Event, change: &Change, resource: &ChangedResource) -> String {
    let happening = event.event_type.as_str().rsplit_once('.').map(|(_, happening)| happening);
    let standard = match (resource.kind.name(), happening.unwrap_or_default()) {
        ("namespace", "updated") => "update-namespace-properties".to_owned(),
        (kind, "created") => format!("create-{kind}"),
        (kind, "registered") => format!("register-{kind}"),
        (kind, "committed") => format!("update-{kind}"),
        (kind, "renamed") => format!("rename-{kind}"),
        (kind, "dropped") => format!("drop-{kind}"),
        _ => String::new(),
    };
    match OPERATION_TYPES.contains(&standard.as_str()) {
        true => standard,
        false => format!("x-{}", change.action.as_str().replace('_', "-")),
    }
}

/// Returns the operation of a change. The change log contains neither the updates of a commit nor the
/// changed properties of a namespace. So the required lists are empty, and `x-slateberg` contains
/// what the log contains.
fn operation(operation_type: String, change: &Change, resource: &ChangedResource) -> Value {
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
    let identifier =
        |namespace: &[String], name: &str| json!({ "namespace": namespace, "name": name });
    match (&resource.renamed_from, &resource.name) {
        (_, None) => add("namespace", json!(resource.namespace)),
        (Some(before), Some(name)) => {
            add("source", identifier(&before.namespace, &before.name));
            add("destination", identifier(&resource.namespace, name));
        }
        (None, Some(name)) => add("identifier", identifier(&resource.namespace, name)),
    }
    if let Some(uuid) = resource.uuid {
        let member = match resource.kind {
            ChangedKind::View => "view-uuid",
            ChangedKind::Function => "function-uuid",
            _ => "table-uuid",
        };
        add(member, json!(uuid));
    }
    match operation_type.as_str() {
        "create-table" | "update-table" | "create-view" | "update-view" => {
            add("updates", json!([]))
        }
        "drop-table" => add("purge", json!(change.action.as_str() == "purge_table")),
        "update-namespace-properties" => {
            add("updated", json!([]));
            add("removed", json!([]));
        }
        _ => {}
    }
    let mut known = Map::new();
    let mut note = |name: &str, value: Value| _ = known.insert(name.to_owned(), value);
    if !resource.operations.is_empty() {
        note("update-actions", json!(resource.operations));
    }
    if !resource.snapshots.is_empty() {
        note("snapshots", json!(resource.snapshots));
    }
    for (name, location) in [
        ("metadata-location-before", &resource.metadata_before),
        ("metadata-location", &resource.metadata_after),
    ] {
        if let Some(location) = location {
            note(name, json!(location));
        }
    }
    if !known.is_empty() {
        add("x-slateberg", Value::Object(known));
    }
    add("operation-type", json!(operation_type));
    Value::Object(members)
}
