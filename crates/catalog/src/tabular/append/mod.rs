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
use super::change::{Change, CommitRequest};
use super::groups::Grouped;
use super::state::NewManifestList;
use crate::append_rebase::AppendRebase;
use crate::attributes::attributes_of_levels;
use crate::jobs::left_behind::LeftBehind;
use crate::pipeline::publications::header;
use crate::tabular::Tabulars;
use crate::{RequestContext, Result};
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::{
    NewList, NotRebased, RebaseCandidate, RebaseChain, RebasedCommit, RebasedSnapshot,
    lost_to_appends,
};
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_objects::manifest_list::ListBlocks;
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
        request: &CommitRequest,
    ) -> impl Future<Output = Result<Option<Arc<PreparedRebase>>>> + Send;

    /// Reads the files that the rebase of a commit needs, because another commit will change the
    /// table before it. So the commit does not read them while it is in the lane.
    fn read_ahead(
        tabulars: &Tabulars,
        id: Uuid,
        prepared: &PreparedRebase,
    ) -> impl Future<Output = ()> + Send;

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
        request: &CommitRequest,
    ) -> Result<Option<Arc<PreparedRebase>>> {
        let Tabulars { core, jobs, manifest_lists, .. } = tabulars;
        let max = core.settings().append_rebase;
        let candidate = || RebaseCandidate::of(&change.requirements, &change.updates);
        if let CommitRequest::Rewrite(rewrite) = request {
            return Ok(Some(Arc::new(PreparedRebase::of_rewrite(candidate(), rewrite))));
        }
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
        let prepared = PreparedRebase::new(candidate(), change.blind_append, inherited);
        if let Ok(candidate) = prepared.permitted(max, table)
            && !candidate.is_current(table)
            // Otherwise, the client sends a commit again that is already in the table.
            && !candidate.is_in(table)
        {
            let (objects, record) = (&core.objects(), &head.record);
            let files = Files { objects, lists: manifest_lists, record };
            let clients = prepared.clients(files, candidate);
            let (version, of_branch) = (table.format_version, candidate.head(table));
            let kept =
                manifest_lists.of_branch(objects, record, version, of_branch.map(|it| &**it));
            // If the commit must be rebased later, a failure is then reported as the reason.
            let (_clients, kept) = tokio::join!(clients, kept);
            if let Ok(kept) = kept {
                let directory = &metadata_file::directory(&table.location, &table.properties);
                let time_max = core.settings().commit_deadline();
                let extraction = Extraction { ids: core.ids(), jobs, directory, time_max };
                prepared.extract_if_needed(files, (candidate, table), &kept, extraction).await;
            }
        }
        Ok(Some(Arc::new(prepared)))
    }

    async fn read_ahead(tabulars: &Tabulars, id: Uuid, prepared: &PreparedRebase) {
        let Tabulars { core, manifest_lists, .. } = tabulars;
        let store = core.store().latest();
        let Ok(Some(head)) = core.environment.head::<Self>(&store, id).await else { return };
        let max = core.settings().append_rebase;
        let Ok(candidate) = prepared.permitted(max, &head.metadata) else { return };
        let (objects, record) = (&core.objects(), &head.record);
        let files = Files { objects, lists: manifest_lists, record };
        // The rebase reports a failure as its reason.
        let _ = prepared.clients(files, candidate).await;
    }

    fn lost_to_appends(change: &Change<Self>, current: &Self) -> bool {
        lost_to_appends(&change.requirements, &change.updates, current)
    }

    async fn rebase(
        builder: &mut CommitBuilder<'_, Self>,
        change: &Change<Self>,
        prepared: &PreparedRebase,
    ) -> std::result::Result<(), Unapplied> {
        let table = Arc::clone(&builder.metadata);
        let composed = compose(builder, &table, prepared).await?;
        let RebasedCommit { updates, requirements } = composed.chain.finish(&change.requirements);
        match builder.apply_updates(&requirements, &updates).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return Err(NotRebased::Other.into()),
        }
        for NewSnapshot { list, blocks } in composed.snapshots {
            let (location, version) = (list.promise.location.clone(), table.format_version);
            builder.tabulars.manifest_lists.insert(location.clone(), version, blocks.clone());
            builder.list_blocks.insert(location, blocks);
            builder.lists.push(list);
        }
        builder.left_behind.append(composed.left_behind);
        Ok(())
    }
}

/// A commit that can be applied to the state after the earlier commits of the group.
struct ComposedCommit<'a> {
    chain: RebaseChain<'a>,
    snapshots: Vec<NewSnapshot>,
    left_behind: LeftBehind,
}

/// The manifest list of a rebased snapshot.
struct NewSnapshot {
    list: NewManifestList,
    blocks: ListBlocks,
}

/// Composes the manifest lists of a commit.
async fn compose<'a>(
    builder: &CommitBuilder<'_, TableMetadata>,
    table: &'a TableMetadata,
    prepared: &'a PreparedRebase,
) -> std::result::Result<ComposedCommit<'a>, Unapplied> {
    let (tabulars, record) = (builder.tabulars, &builder.head.record);
    let (settings, objects) = (tabulars.core.settings(), tabulars.core.objects());
    let version = table.format_version;
    let candidate = prepared.permitted(settings.append_rebase, table)?;
    let snapshots = table.snapshots.len() + candidate.added().len();
    if snapshots > settings.append_rebase_snapshots_max && !prepared.is_rewrite() {
        return Err(NotRebased::TooMany("snapshots").into());
    }
    let files = Files { objects: &objects, lists: &tabulars.manifest_lists, record };
    // Reads the lists of the client first, because they decide whether the commit can be rebased at
    // all.
    prepared.clients(files, candidate).await?;
    let head = candidate.head(table).map(|head| &**head);
    let mut onto = head.and_then(|head| head.manifest_list());
    let mut branch = match onto.as_ref().and_then(|location| builder.list_blocks.get(location)) {
        Some(blocks) => blocks.clone(),
        None => tabulars.manifest_lists.of_branch(&objects, record, version, head).await?,
    };
    if version >= 3 && branch.entries().any(|it| it.is_data() && it.first_row_id.is_none()) {
        return Err(NotRebased::RowIds.into());
    }
    let mut chain = RebaseChain::new(candidate, table);
    let (mut snapshots, mut left_behind) = (Vec::new(), LeftBehind::default());
    for (position, added) in candidate.added().iter().enumerate() {
        let composed = prepared.compose(files, (candidate, position), (table, &branch)).await?;
        let Composition { own, removed, unused, new } = composed;
        if !removed.is_empty() {
            branch = branch.without(&removed.iter().map(String::as_str).collect::<HashSet<_>>());
        }
        let manifests = branch.len() + own.len();
        if manifests > settings.append_rebase_manifests_max && !prepared.is_rewrite() {
            return Err(NotRebased::TooMany("manifests").into());
        }
        left_behind.manifest_lists.push(added.manifest_list().to_owned());
        left_behind.manifests.extend(unused);
        left_behind.used.extend(new);
        let snapshot =
            builder.new_list(added.snapshot_id(), (&mut chain, own), &branch, onto, removed)?;
        onto = Some(snapshot.list.promise.location.clone());
        branch = snapshot.blocks.clone();
        snapshots.push(snapshot);
    }
    Ok(ComposedCommit { chain, snapshots, left_behind })
}

impl CommitBuilder<'_, TableMetadata> {
    /// Adds a snapshot to a commit, with the manifests `own` in front of the other manifests of the
    /// branch. These are the manifests of the list `onto` without `removed`.
    fn new_list(
        &self,
        snapshot_id: i64,
        (chain, own): (&mut RebaseChain<'_>, Vec<ManifestFile>),
        branch: &ListBlocks,
        onto: Option<String>,
        removed: Vec<String>,
    ) -> std::result::Result<NewSnapshot, NotRebased> {
        let (directory, file_id) = (self.metadata_directory(), self.tabulars.core.ids().random());
        let location = format!("{directory}/snap-{snapshot_id}-0-{file_id}.avro");
        let (kept, replaced, now_ms) = (branch.len(), removed.len(), self.context.now_ms);
        let list = NewList { location: &location, kept, replaced, now_ms };
        let RebasedSnapshot { snapshot, own } = chain.add(&own, list)?;
        let promise = PromisedList {
            location,
            format_version: self.metadata.format_version,
            snapshot_id,
            parent_snapshot_id: snapshot.parent_snapshot_id,
            sequence_number: snapshot.sequence_number,
            first_row_id: snapshot.first_row_id,
            own: own.clone(),
            onto,
            removed,
        };
        let blocks = branch.prepend(own);
        let content = blocks.to_file(&header(&promise));
        Ok(NewSnapshot { list: NewManifestList { promise, content }, blocks })
    }
}

impl Rebase for ViewMetadata {
    async fn prepare_rebase(
        _tabulars: &Tabulars,
        _cx: &RequestContext,
        _id: Uuid,
        _change: &Change<Self>,
        _request: &CommitRequest,
    ) -> Result<Option<Arc<PreparedRebase>>> {
        Ok(None)
    }

    async fn read_ahead(_tabulars: &Tabulars, _id: Uuid, _prepared: &PreparedRebase) {}

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
