//! The attributes `subject` and `time` of a `CloudEvent`.

use std::time::{Duration, UNIX_EPOCH};

use slateberg_authz::notation::resource_text;
use slateberg_authz::resource::{Node, Resource};
use slateberg_management::watch::WatchEvent;
use slateberg_model::ident::{NamespaceIdent, TabularKind};

/// Returns the name of the changed resource, such as `table:prod/sales/orders`. `None` if the event
/// is not about a warehouse or something in it.
pub(super) fn subject(event: &WatchEvent) -> Option<String> {
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
pub(super) fn time(at_ms: i64) -> Option<String> {
    let since = Duration::from_millis(u64::try_from(at_ms).ok()?);
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string())
}
