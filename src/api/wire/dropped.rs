//! Converts dropped namespaces, tables and views to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog as catalog;
use slateberg_management::dropped::{DroppedList, DroppedResource, UndropRequest, UndropResult};

/// Returns the restoration that a request describes.
pub fn undrop_request(request: UndropRequest) -> catalog::UndropRequest {
    let UndropRequest { resource, id, new_name } = request;
    catalog::UndropRequest { resource, id, new_name }
}

/// Returns a restored namespace, table or view.
pub fn undropped(undropped: catalog::UndropResult) -> UndropResult {
    let catalog::UndropResult { id, resource, metadata_location, restored } = undropped;
    UndropResult { id, resource, metadata_location, restored }
}

/// Returns a page of dropped namespaces, tables and views.
pub fn dropped_list(page: catalog::DroppedPage, keys: &ApiKeys) -> DroppedList {
    let dropped = page.dropped.into_iter().map(|info| dropped(info, keys)).collect();
    DroppedList { dropped, next_page_token: page.next }
}

fn dropped(info: catalog::DroppedInfo, keys: &ApiKeys) -> DroppedResource {
    DroppedResource {
        id: info.id,
        resource: info.resource,
        location: info.location,
        metadata_location: info.metadata_location,
        dropped_at_ms: info.dropped_ms,
        dropped_by_name: keys.name_of(&info.dropped_by),
        dropped_by: info.dropped_by,
        expires_at_ms: info.expires_ms,
        purge: info.purge,
    }
}
