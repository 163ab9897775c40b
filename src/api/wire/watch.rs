//! Converts events of the change feed to the form of responses.

use std::sync::Arc;

use slateberg_catalog::watch::{Change, ChangedResource, Event, EventBatch};
use slateberg_management::watch::{ResourceState, WatchEvent, WatchResponse, WatchedResource};

/// Returns the response to a long poll.
pub fn watch_response(batch: EventBatch) -> WatchResponse {
    let EventBatch { events, position, caught_up } = batch;
    let events = events.into_iter().map(watch_event).collect();
    WatchResponse { events, next: position.to_string(), caught_up }
}

/// Returns an event.
pub fn watch_event(event: Event) -> WatchEvent {
    let Event { event_type, position, warehouse, change } = event;
    let empty = WatchEvent {
        event_type: event_type.to_string(),
        position: position.map(|position| position.to_string()),
        at_ms: None,
        action: None,
        warehouse,
        resource: None,
        before: None,
        after: None,
        snapshots: Default::default(),
        operations: Vec::new(),
        principal: None,
        principal_name: None,
        request_id: None,
    };
    match change {
        Some(change) => with_change(empty, Arc::unwrap_or_clone(change)),
        None => empty,
    }
}

fn with_change(event: WatchEvent, change: Change) -> WatchEvent {
    let origin = change.origin.unwrap_or_default();
    let event = WatchEvent {
        at_ms: Some(change.at_ms),
        action: Some(change.action.into()),
        principal: Some(change.principal).filter(|principal| !principal.is_empty()),
        principal_name: origin.principal_name,
        request_id: origin.request_id,
        ..event
    };
    let state = |version: Option<u64>, metadata_location: Option<String>| ResourceState {
        version,
        metadata_location,
        ..ResourceState::default()
    };
    let present = |state: ResourceState| Some(state).filter(|it| *it != ResourceState::default());
    let Some(resource) = change.resource else {
        let name = Some(change.name).filter(|name| !name.is_empty());
        let resource = WatchedResource {
            kind: "other".to_owned(),
            id: change.subject,
            uuid: None,
            namespace: Vec::new(),
            name,
        };
        return WatchEvent {
            resource: Some(resource),
            before: present(state(change.version_before, None)),
            after: present(state(change.version_after, None)),
            ..event
        };
    };
    let ChangedResource { kind, namespace, name, renamed_from, uuid, .. } = resource;
    let (old_namespace, old_name) = renamed_from.map(|it| (it.namespace, it.name)).unzip();
    let before = ResourceState {
        namespace: old_namespace,
        name: old_name,
        ..state(change.version_before, resource.metadata_before)
    };
    WatchEvent {
        resource: Some(WatchedResource {
            kind: kind.name().to_owned(),
            id: change.subject,
            uuid,
            namespace,
            name,
        }),
        before: present(before),
        after: present(state(change.version_after, resource.metadata_after)),
        snapshots: resource.snapshots,
        operations: resource.operations,
        ..event
    }
}
