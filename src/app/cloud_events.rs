//! Events of the change feed as `CloudEvents` 1.0, as webhooks and `slateberg watch --to` send them.

use std::fmt::Display;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use uuid::Uuid;

use slateberg_authz::notation::resource_text;
use slateberg_authz::resource::{Node, Resource};
use slateberg_management::watch::WatchEvent;
use slateberg_model::ident::{NamespaceIdent, TabularKind};

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    datacontenttype: &'static str,
    data: &'a WatchEvent,
}

/// Returns the source of the events of a catalog.
pub fn event_source(catalog_id: Uuid) -> String {
    format!("urn:uuid:{catalog_id}")
}

/// Returns the id of an event: the position of its transaction, and its index in the transaction.
/// The id is the same in each repetition of the event.
pub fn event_id(position: impl Display, index: usize) -> String {
    format!("{position}.{index}")
}

/// Returns the JSON of an event with this id. `source` identifies the catalog.
pub fn cloud_event(data: &WatchEvent, id: &str, source: &str) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&CloudEvent {
        specversion: "1.0",
        id,
        source,
        event_type: &data.event_type,
        subject: subject(data),
        time: data.at_ms.and_then(time),
        datacontenttype: "application/json",
        data,
    })
}

/// Returns the name of the changed resource, such as `table:prod/sales/orders`. `None` if the event
/// is not about a warehouse or something in it.
fn subject(event: &WatchEvent) -> Option<String> {
    let (resource, warehouse) = (event.resource.as_ref()?, event.warehouse.as_deref()?);
    let warehouse = Resource::warehouse(warehouse);
    let inside = || warehouse.clone().namespace(&NamespaceIdent(resource.namespace.clone()));
    let node = || Some(Node::named(resource.name.as_deref()?));
    let resource = match resource.kind.as_str() {
        "warehouse" => warehouse,
        "namespace" => inside(),
        "table" => inside().tabular(TabularKind::Table, node()?),
        "view" => inside().tabular(TabularKind::View, node()?),
        "function" => inside().function(node()?),
        _ => return None,
    };
    Some(resource_text(&resource))
}

/// Returns a time as RFC 3339 requires it. `None` for a time before 1970.
fn time(at_ms: i64) -> Option<String> {
    let since = Duration::from_millis(u64::try_from(at_ms).ok()?);
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string())
}
