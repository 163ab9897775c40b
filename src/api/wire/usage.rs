//! Converts the use of tables to the form of responses.

use slateberg_catalog::usage as catalog;
use slateberg_catalog::usage::LastUse;
use slateberg_management::tables::{TableUsage, TableUsageList};

/// Converts a page of tables.
pub fn usage_list(page: catalog::UsagePage) -> TableUsageList {
    TableUsageList {
        tables: page.tables.into_iter().map(table_usage).collect(),
        next_page_token: page.next,
    }
}

fn table_usage(table: catalog::TabularUsage) -> TableUsage {
    let since_ms = table.usage.as_ref().map(|usage| usage.since_ms);
    let usage = table.usage.unwrap_or_default();
    let last_read_at_ms = usage.last_read.as_ref().map(|last| last.at_ms);
    let last_commit_at_ms = usage.last_commit.as_ref().map(|last| last.at_ms);
    let principal = |last: Option<LastUse>| match last.filter(|_| table.shows_principals) {
        Some(last) => (Some(last.principal), last.name),
        None => (None, None),
    };
    let (last_read_by, last_read_by_name) = principal(usage.last_read);
    let (last_commit_by, last_commit_by_name) = principal(usage.last_commit);
    TableUsage {
        resource: table.resource,
        loads: usage.loads,
        scans: usage.scans,
        commits: usage.commits,
        since_ms,
        last_read_at_ms,
        last_read_by,
        last_read_by_name,
        last_commit_at_ms,
        last_commit_by,
        last_commit_by_name,
    }
}
