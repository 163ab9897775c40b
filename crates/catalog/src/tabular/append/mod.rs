//! Rebases appends and compactions.
//!
//! If an append conflicts with the current state of its table, the server can apply it to this
//! state instead of rejecting it. The property `slateberg.append-rebase` must enable this. With its
//! value `declared`, the writer must also declare that the append is blind. A compaction changes no
//! rows, so it needs no declaration. `slateberg_model::rebase` has the rules. This module reads the
//! manifest list of the client before the commit enters the lane. It builds the manifest list of
//! the new snapshot, which the pipeline publishes together with the metadata file.
//!
//! An append may have merged manifests that another commit has replaced since. Then its added files
//! are written to a new manifest, before the commit enters the lane ([`extraction`]).

mod extraction;
pub(crate) mod lists;
pub(crate) mod prepared;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use uuid::Uuid;

use self::extraction::Extraction;
use self::lists::Files;
use self::prepared::{Composition, PreparedRebase, Unapplied};
use super::builder::CommitBuilder;
use super::change::Change;
use super::groups::Grouped;
use super::state::NewManifestList;
use crate::append_rebase::AppendRebase;
use crate::attributes::attributes_of_levels;
use crate::pipeline::publications::header;
use crate::tabular::Tabulars;
use crate::{RequestContext, Result};
use slateberg_model::rebase::{NewList, NotRebased, RebaseCandidate, lost_to_appends};
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_objects::metadata_file;
use slateberg_store::records::PromisedList;

/// Implemented for tables, whose commits can be rebased, and for views, whose commits cannot.
pub(crate) trait Rebase: Grouped {
    /// Returns the rebase of a commit if appends to its table are rebased. If the table has already
    /// changed since the client loaded it, also reads the files that the rebase needs, and writes
    /// the manifests that it needs. So the commit does not do this while it is in the lane.
    fn prepare_rebase(
        tabulars: &Tabulars,
        cx: &RequestContext,
        id: Uuid,
        change: &Change<Self>,
    ) -> impl Future<Output = Result<Option<Arc<PreparedRebase>>>> + Send;

    /// Whether a commit that cannot be rebased conflicts only with appends, and at least one of them
    /// was rebased.
    fn lost_to_appends(change: &Change<Self>, current: &Self) -> bool;

    /// Applies a commit, with a new manifest list, to the state after the earlier commits of the
    /// group. An error leaves that state unchanged.
    fn rebase(
        builder: &mut CommitBuilder<'_, Self>,
        change: &Change<Self>,
        prepared: &PreparedRebase,
    ) -> impl Future<Output = std::result::Result<(), Unapplied>> + Send;
}

impl Rebase for TableMetadata {
    async fn prepare_rebase(
        tabulars: &Tabulars,
        cx: &RequestContext,
        id: Uuid,
        change: &Change<Self>,
    ) -> Result<Option<Arc<PreparedRebase>>> {
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
        let candidate = RebaseCandidate::of(&change.requirements, &change.updates);
        let prepared = PreparedRebase::new(candidate, change.blind_append, inherited);
        if let Ok(candidate) = prepared.permitted(max, table)
            && !candidate.is_current(table)
            // Otherwise, the client sends a commit again that is already in the table.
            && table.snapshot(candidate.snapshot_id()).is_none()
        {
            let (objects, lists) = (&core.objects(), &**manifest_lists);
            let (record, version) = (&head.record, table.format_version);
            let files = Files { objects, lists, record };
            let client = prepared.client(files, candidate);
            let of_branch = candidate.head(table).map(|head| &**head);
            let kept = lists.of_branch(objects, record, version, of_branch);
            // A failure is not reported here. If the commit must be rebased later and cannot be,
            // the failure is reported as the reason.
            let (_client, kept) = tokio::join!(client, kept);
            if let Ok(kept) = kept {
                let directory = &metadata_file::directory(&table.location, &table.properties);
                let time_max = core.settings().commit_deadline();
                let extraction = Extraction { ids: core.ids(), directory, time_max };
                prepared.extract_if_needed(files, (candidate, table), &kept, extraction).await;
            }
        }
        Ok(Some(Arc::new(prepared)))
    }

    fn lost_to_appends(change: &Change<Self>, current: &Self) -> bool {
        lost_to_appends(&change.requirements, &change.updates, current)
    }

    async fn rebase(
        builder: &mut CommitBuilder<'_, Self>,
        change: &Change<Self>,
        prepared: &PreparedRebase,
    ) -> std::result::Result<(), Unapplied> {
        let (tabulars, record) = (builder.tabulars, &builder.head.record);
        let (settings, objects) = (tabulars.core.settings(), tabulars.core.objects());
        let table = Arc::clone(&builder.metadata);
        let version = table.format_version;
        let candidate = prepared.permitted(settings.append_rebase, &table)?;
        if table.snapshots.len() >= settings.append_rebase_snapshots_max {
            return Err(NotRebased::TooMany("snapshots").into());
        }
        let files = Files { objects: &objects, lists: &tabulars.manifest_lists, record };
        // Reads the list of the client first, because this list decides whether the commit can be
        // rebased at all.
        prepared.client(files, candidate).await?;
        let head = candidate.head(&table).map(|head| &**head);
        let onto = head.and_then(|head| head.manifest_list());
        let branch = match onto.as_ref().and_then(|location| builder.list_blocks.get(location)) {
            Some(blocks) => blocks.clone(),
            None => tabulars.manifest_lists.of_branch(&objects, record, version, head).await?,
        };
        if version >= 3 && branch.entries().any(|it| it.is_data() && it.first_row_id.is_none()) {
            return Err(NotRebased::RowIds.into());
        }
        let composed = prepared.compose(files, (candidate, &table), &branch).await?;
        let Composition { own, removed } = composed;
        let kept = if removed.is_empty() {
            branch
        } else {
            branch.without(&removed.iter().map(String::as_str).collect::<HashSet<_>>())
        };
        if kept.len() + own.len() > settings.append_rebase_manifests_max {
            return Err(NotRebased::TooMany("manifests").into());
        }
        let directory = builder.metadata_directory();
        let (snapshot_id, file_id) = (candidate.snapshot_id(), tabulars.core.ids().random());
        let location = format!("{directory}/snap-{snapshot_id}-0-{file_id}.avro");
        let now_ms = builder.context.now_ms;
        let replaced = removed.len();
        let list = NewList { location: &location, kept: kept.len(), replaced, now_ms };
        let rebased = candidate.rebase(&table, &change.requirements, &own, list)?;
        let promise = PromisedList {
            location: location.clone(),
            format_version: version,
            snapshot_id,
            parent_snapshot_id: rebased.snapshot.parent_snapshot_id,
            sequence_number: rebased.snapshot.sequence_number,
            first_row_id: rebased.snapshot.first_row_id,
            own: rebased.own.clone(),
            onto,
            removed,
        };
        match builder.apply_updates(&rebased.requirements, &rebased.updates).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return Err(NotRebased::Other.into()),
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
    async fn prepare_rebase(
        _tabulars: &Tabulars,
        _cx: &RequestContext,
        _id: Uuid,
        _change: &Change<Self>,
    ) -> Result<Option<Arc<PreparedRebase>>> {
        Ok(None)
    }

    fn lost_to_appends(_change: &Change<Self>, _current: &Self) -> bool {
        false
    }

    async fn rebase(
        _builder: &mut CommitBuilder<'_, Self>,
        _change: &Change<Self>,
        _prepared: &PreparedRebase,
    ) -> std::result::Result<(), Unapplied> {
        Err(NotRebased::NotAnAppend.into())
    }
}
