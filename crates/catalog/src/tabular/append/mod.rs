//! Rebases appends.
//!
//! If an append conflicts with the current state of its table, the server can apply it to this
//! state instead of rejecting it. The property `slateberg.append-rebase` must enable this. With its
//! value `declared`, the writer must also declare that the append is blind.
//! `slateberg_model::rebase` has the rules. This module reads the manifest list of the client
//! before the commit enters the lane. It builds the manifest list of the new snapshot, which the
//! pipeline publishes together with the metadata file.

pub(crate) mod lists;
pub(crate) mod prepared;

use std::future::Future;
use std::sync::Arc;

use uuid::Uuid;

use self::prepared::PreparedAppend;
use super::builder::CommitBuilder;
use super::change::Change;
use super::groups::Grouped;
use super::state::NewManifestList;
use crate::append_rebase::AppendRebase;
use crate::attributes::attributes_of_levels;
use crate::pipeline::publications::header;
use crate::tabular::Tabulars;
use crate::{RequestContext, Result};
use slateberg_model::rebase::{Append, NewList, NotRebased};
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_store::records::PromisedList;

/// Implemented for tables, whose appends can be rebased, and for views, which have no appends.
pub(crate) trait Rebase: Grouped {
    /// Returns the append of a commit if appends to its table are rebased. If the table has already
    /// changed since the client loaded it, also reads the manifest lists that the rebase needs. So
    /// the commit does not read them while it is in the lane.
    fn prepare_append(
        tabulars: &Tabulars,
        cx: &RequestContext,
        id: Uuid,
        change: &Change<Self>,
    ) -> impl Future<Output = Result<Option<Arc<PreparedAppend>>>> + Send;

    /// Applies an append, with a new manifest list, to the state after the earlier commits of the
    /// group. An error leaves that state unchanged.
    fn rebase(
        builder: &mut CommitBuilder<'_, Self>,
        change: &Change<Self>,
        prepared: &PreparedAppend,
    ) -> impl Future<Output = std::result::Result<(), NotRebased>> + Send;
}

impl Rebase for TableMetadata {
    async fn prepare_append(
        tabulars: &Tabulars,
        cx: &RequestContext,
        id: Uuid,
        change: &Change<Self>,
    ) -> Result<Option<Arc<PreparedAppend>>> {
        let Tabulars { core, manifest_lists, .. } = tabulars;
        let max = core.settings().append_rebase;
        if max == AppendRebase::Off || change.creates() {
            return Ok(None);
        }
        let store = core.store().latest();
        let Some(head) = core.environment.head::<Self>(&store, id).await? else { return Ok(None) };
        let table = &head.metadata;
        let levels = attributes_of_levels(&store, &cx.warehouse, &change.ident.namespace).await?;
        let inherited = levels.iter().rev().find_map(|level| AppendRebase::of(&level.properties));
        let inherited = inherited.unwrap_or_default();
        if AppendRebase::of(&table.properties).unwrap_or(inherited) == AppendRebase::Off {
            return Ok(None);
        }
        let append = Append::of(&change.requirements, &change.updates);
        let prepared = PreparedAppend::new(append, change.blind_append, inherited);
        if let Ok(append) = prepared.permitted(max, table)
            && !append.is_current(table)
        {
            let objects = core.objects();
            let (record, version) = (&head.record, table.format_version);
            let own = prepared.own(&objects, record, append);
            let head = append.head(table).map(|head| &**head);
            let kept = manifest_lists.of_branch(&objects, record, version, head);
            // Failures are ignored here. If the append must be rebased later and this fails, the
            // commit reports the failure.
            let (_own, _kept) = tokio::join!(own, kept);
        }
        Ok(Some(Arc::new(prepared)))
    }

    async fn rebase(
        builder: &mut CommitBuilder<'_, Self>,
        change: &Change<Self>,
        prepared: &PreparedAppend,
    ) -> std::result::Result<(), NotRebased> {
        let (tabulars, record) = (builder.tabulars, &builder.head.record);
        let (settings, objects) = (tabulars.core.settings(), tabulars.core.objects());
        let table = Arc::clone(&builder.metadata);
        let version = table.format_version;
        let append = prepared.permitted(settings.append_rebase, &table)?;
        if table.snapshots.len() >= settings.append_rebase_snapshots_max {
            return Err(NotRebased::TooMany("snapshots"));
        }
        let own = prepared.own(&objects, record, append).await?;
        let head = append.head(&table).map(|head| &**head);
        let onto = head.and_then(|head| head.manifest_list());
        let kept = match onto.as_ref().and_then(|location| builder.list_blocks.get(location)) {
            Some(blocks) => blocks.clone(),
            None => tabulars.manifest_lists.of_branch(&objects, record, version, head).await?,
        };
        if version >= 3 && kept.entries().any(|it| it.is_data() && it.first_row_id.is_none()) {
            return Err(NotRebased::RowIds);
        }
        if kept.len() + own.len() > settings.append_rebase_manifests_max {
            return Err(NotRebased::TooMany("manifests"));
        }
        let directory = builder.metadata_directory();
        let (snapshot_id, file_id) = (append.snapshot_id(), tabulars.core.ids().random());
        let location = format!("{directory}/snap-{snapshot_id}-0-{file_id}.avro");
        let now_ms = builder.context.now_ms;
        let list = NewList { location: &location, kept: kept.len(), now_ms };
        let rebased = append.rebase(&table, &change.requirements, own, list)?;
        let promise = PromisedList {
            location: location.clone(),
            format_version: version,
            snapshot_id,
            parent_snapshot_id: rebased.snapshot.parent_snapshot_id,
            sequence_number: rebased.snapshot.sequence_number,
            first_row_id: rebased.snapshot.first_row_id,
            own: rebased.own.clone(),
            onto,
        };
        match builder.apply_updates(&rebased.requirements, &rebased.updates).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return Err(NotRebased::Other),
        }
        let blocks = kept.prepend(rebased.own);
        let content = blocks.to_file(&header(&promise));
        tabulars.manifest_lists.insert(location.clone(), version, blocks.clone());
        builder.list_blocks.insert(location, blocks);
        builder.lists.push(NewManifestList { promise, content });
        Ok(())
    }
}

impl Rebase for ViewMetadata {
    async fn prepare_append(
        _tabulars: &Tabulars,
        _cx: &RequestContext,
        _id: Uuid,
        _change: &Change<Self>,
    ) -> Result<Option<Arc<PreparedAppend>>> {
        Ok(None)
    }

    async fn rebase(
        _builder: &mut CommitBuilder<'_, Self>,
        _change: &Change<Self>,
        _prepared: &PreparedAppend,
    ) -> std::result::Result<(), NotRebased> {
        Err(NotRebased::NotAnAppend)
    }
}
