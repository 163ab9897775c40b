//! Converts cursors of the change feed to the form of responses.

use slateberg_catalog::watch::cursors::CursorInfo;
use slateberg_management::cursors::Cursor;

/// Returns a cursor.
pub fn cursor(info: CursorInfo) -> Cursor {
    let CursorInfo { name, record, lag_changes } = info;
    Cursor {
        name,
        position: record.position,
        lag_changes,
        created_at_ms: record.created_ms,
        stored_at_ms: record.stored_ms,
        stored_by: record.stored_by,
        consumer: record.consumer,
    }
}
