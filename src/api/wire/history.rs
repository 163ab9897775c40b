//! Converts entries of the change log to the form of responses.

use slateberg_catalog as catalog;
use slateberg_management::history::{HistoryEntry, HistoryResponse};

/// Returns a page of entries.
pub fn history_response(page: catalog::history::HistoryPage) -> HistoryResponse {
    let entries = page.entries.into_iter().map(entry).collect();
    HistoryResponse { entries, next_before: page.next_before }
}

fn entry(entry: catalog::history::HistoryEntry) -> HistoryEntry {
    let catalog::history::HistoryEntry { number, warehouse, change } = entry;
    let origin = change.origin.unwrap_or_default();
    let (policies, policy_revision) = match change.allowed {
        Some(allowed) => (Some(allowed.policies), Some(allowed.revision)),
        None => (None, None),
    };
    HistoryEntry {
        number,
        at_ms: change.at_ms,
        action: change.action.into(),
        id: change.subject,
        name: change.name,
        warehouse,
        version_before: change.version_before,
        version_after: change.version_after,
        principal: change.principal,
        principal_name: origin.principal_name,
        authentication: origin.method,
        source_address: origin.source_address,
        request_id: origin.request_id,
        policies,
        policy_revision,
    }
}
