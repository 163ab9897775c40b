//! Converts the health of tables to the form of responses.

use slateberg_catalog::planning as catalog;
use slateberg_management::tables::{
    DataFilesHealth, DeleteFilesHealth, ManifestsHealth, MetadataHealth, SnapshotsHealth,
    StatementProgram, TableAdvice, TableAdviceAction, TableGrowth, TableHealth,
};

/// Converts the health of a table.
pub fn table_health(resource: String, health: catalog::TableHealth) -> TableHealth {
    TableHealth {
        resource,
        snapshot_id: health.snapshot_id,
        complete: health.is_complete,
        data_files: data_files(health.data_files),
        delete_files: delete_files(health.delete_files),
        manifests: manifests(health.manifests),
        metadata: metadata(health.metadata),
        snapshots: snapshots(health.snapshots),
        growth: health.growth.map(growth),
        advice: health.advice.into_iter().map(advice).collect(),
    }
}

fn data_files(counts: catalog::DataFileCounts) -> DataFilesHealth {
    DataFilesHealth {
        files: counts.files,
        bytes: counts.bytes,
        rows: counts.rows,
        partitions: counts.partitions,
        target_bytes: counts.target_bytes,
        small_files: counts.small_files,
        small_bytes: counts.small_bytes,
        compactable_files: counts.compactable_files,
        compacted_files: counts.compacted_files,
    }
}

fn delete_files(counts: catalog::DeleteFileCounts) -> DeleteFilesHealth {
    DeleteFilesHealth {
        position_files: counts.position_files,
        equality_files: counts.equality_files,
        vectors: counts.vectors,
        bytes: counts.bytes,
        deleted_rows: counts.deleted_rows,
    }
}

fn manifests(counts: catalog::ManifestCounts) -> ManifestsHealth {
    ManifestsHealth {
        data: counts.data,
        delete: counts.delete,
        bytes: counts.bytes,
        small: counts.small,
        target_bytes: counts.target_bytes,
    }
}

fn metadata(counts: catalog::MetadataCounts) -> MetadataHealth {
    MetadataHealth {
        bytes: counts.bytes,
        manifest_list_bytes: counts.manifest_list_bytes,
        previous_files: counts.previous_files,
        previous_files_max: counts.previous_files_max,
        deletes_previous_files: counts.deletes_previous_files,
    }
}

fn snapshots(counts: catalog::SnapshotCounts) -> SnapshotsHealth {
    SnapshotsHealth {
        snapshots: counts.snapshots,
        refs: counts.refs,
        expired: counts.expired,
        oldest_id: counts.oldest.map(|(id, _)| id),
        oldest_at_ms: counts.oldest.map(|(_, at_ms)| at_ms),
        newest_at_ms: counts.newest_ms,
    }
}

fn growth(growth: catalog::Growth) -> TableGrowth {
    TableGrowth {
        from_at_ms: growth.from_ms,
        to_at_ms: growth.to_ms,
        snapshots: growth.snapshots,
        data_files: growth.data_files,
        delete_files: growth.delete_files,
        bytes: growth.bytes,
        rows: growth.rows,
    }
}

fn advice(advice: catalog::Advice) -> TableAdvice {
    use catalog::AdviceAction as A;
    let run_with = match advice.action.is_command() {
        true => StatementProgram::Slateberg,
        false => StatementProgram::Spark,
    };
    let action = match advice.action {
        A::RewriteDataFiles => TableAdviceAction::RewriteDataFiles,
        A::RewritePositionDeleteFiles => TableAdviceAction::RewritePositionDeleteFiles,
        A::RewriteManifests => TableAdviceAction::RewriteManifests,
        A::ExpireSnapshots => TableAdviceAction::ExpireSnapshots,
        A::DeleteOldMetadata => TableAdviceAction::DeleteOldMetadata,
    };
    TableAdvice { action, reason: advice.reason, run_with, statement: advice.statement }
}
