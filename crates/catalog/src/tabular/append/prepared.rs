//! [`PreparedRebase`]: a commit that the server may rebase.

use std::sync::Arc;

use futures::future::try_join_all;
use tokio::sync::OnceCell;

use super::super::change::CommittedRewrite;
use super::extraction::{AddedFiles, Extraction};
use super::lists::{self, Files, is_within};
use crate::append_rebase::AppendRebase;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::{ClientManifests, NotRebased, RebaseCandidate};
use slateberg_model::table::TableMetadata;
use slateberg_objects::manifest_list::ListBlocks;
use slateberg_store::keys::AbandonedKey;

/// A commit to a table whose appends may be rebased.
pub(crate) struct PreparedRebase {
    /// The candidate, or the reason why the commit cannot be rebased.
    candidate: Result<RebaseCandidate, NotRebased>,
    /// Whether the request declared its append as blind.
    declared: bool,
    /// The value of the property that the table inherits from its namespaces.
    inherited: AppendRebase,
    /// The manifests of the client, for each snapshot. Set when the manifest lists of the client
    /// have been read.
    clients: OnceCell<Result<Vec<ClientManifests>, NotRebased>>,
    /// The manifests of the snapshot that the client had loaded. Only read if the client has
    /// replaced some of them.
    base: OnceCell<Result<ListBlocks, NotRebased>>,
    /// Manifests with the files that the append adds, for an append that has merged manifests.
    extracted: OnceCell<Result<AddedFiles, NotRebased>>,
    /// The rewrite of manifests, if the server has created the commit.
    rewrite: Option<Arc<CommittedRewrite>>,
}

/// The manifests with which a commit changes the branch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Composition {
    /// Manifests to add.
    pub(super) own: Vec<ManifestFile>,
    /// Paths of the manifests to remove.
    pub(super) removed: Vec<String>,
    /// Paths of manifests that the client has merged in vain.
    pub(super) unused: Vec<String>,
    /// The record of new manifests among those to add.
    pub(super) new: Option<AbandonedKey>,
}

/// Reason why a commit is not rebased now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unapplied {
    /// It cannot be rebased.
    Refused(NotRebased),
    /// A manifest must be written first. The commit is prepared again outside of the lane.
    Postponed,
}

impl Composition {
    /// Adds only the added files of merged manifests.
    fn of_added_files(client: &ClientManifests, added: &AddedFiles) -> Self {
        let AddedFiles { manifests, new } = added;
        let is_unused = |path: &String| !manifests.iter().any(|it| it.path == *path);
        let of_client = client.own().iter().map(|manifest| manifest.path.clone());
        Self {
            own: manifests.clone(),
            removed: Vec::new(),
            unused: of_client.filter(is_unused).collect(),
            new: new.record,
        }
    }
}

impl From<NotRebased> for Unapplied {
    fn from(reason: NotRebased) -> Self {
        Self::Refused(reason)
    }
}

impl PreparedRebase {
    /// Creates a prepared rebase. `declared` is `true` if the request declared its append as blind.
    pub(super) fn new(
        candidate: Result<RebaseCandidate, NotRebased>,
        declared: bool,
        inherited: AppendRebase,
    ) -> Self {
        Self {
            candidate,
            declared,
            inherited,
            clients: OnceCell::new(),
            base: OnceCell::new(),
            extracted: OnceCell::new(),
            rewrite: None,
        }
    }

    /// Creates the prepared rebase of a rewrite of manifests. It needs no permission of the table,
    /// because it changes no rows.
    pub(super) fn of_rewrite(
        candidate: Result<RebaseCandidate, NotRebased>,
        rewrite: &Arc<CommittedRewrite>,
    ) -> Self {
        let rewrite = Some(Arc::clone(rewrite));
        Self { rewrite, ..Self::new(candidate, false, AppendRebase::Off) }
    }

    /// Whether the server has created the commit, to rewrite manifests.
    pub(super) fn is_rewrite(&self) -> bool {
        self.rewrite.is_some()
    }

    /// The records of the files that the commit uses.
    pub(crate) fn used_records(&self) -> &[AbandonedKey] {
        self.rewrite.as_ref().map_or(&[], |rewrite| &rewrite.records)
    }

    /// Whether the commit is an append that could be rebased onto some state.
    pub(crate) fn is_append(&self) -> bool {
        self.candidate.as_ref().is_ok_and(RebaseCandidate::is_append)
    }

    /// Returns the candidate if it may be rebased onto this state.
    pub(super) fn permitted(
        &self,
        max: AppendRebase,
        table: &TableMetadata,
    ) -> Result<&RebaseCandidate, NotRebased> {
        let candidate = self.candidate.as_ref().map_err(NotRebased::clone)?;
        if self.is_rewrite() {
            candidate.check(table)?;
            return Ok(candidate);
        }
        match max.min(AppendRebase::of(&table.properties).unwrap_or(self.inherited)) {
            AppendRebase::Off => return Err(NotRebased::Disabled),
            AppendRebase::Declared if !self.declared && !candidate.is_declared_blind() => {
                return Err(NotRebased::NotDeclared);
            }
            AppendRebase::Declared | AppendRebase::All => {}
        }
        candidate.check(table)?;
        Ok(candidate)
    }

    /// Returns the manifests of the client, for each snapshot. Reads its manifest lists once.
    pub(super) async fn clients(
        &self,
        files: Files<'_>,
        candidate: &RebaseCandidate,
    ) -> Result<&[ClientManifests], NotRebased> {
        let read = || async {
            let Files { objects, record, .. } = files;
            let added = candidate.added().iter();
            let reads = added.map(|it| lists::read(objects, record, it.manifest_list()));
            let lists = try_join_all(reads).await?;
            let clients = candidate.manifests(lists.into_iter().map(|list| list.entries))?;
            let mut own = clients.iter().flat_map(ClientManifests::own);
            if own.all(|manifest| is_within(files.record, &manifest.path)) {
                Ok(clients)
            } else {
                Err(NotRebased::Location)
            }
        };
        let clients = self.clients.get_or_init(read).await;
        clients.as_deref().map_err(NotRebased::clone)
    }

    /// Returns how the snapshot at this position of the commit changes the branch, which has the
    /// manifests `head`.
    pub(super) async fn compose(
        &self,
        files: Files<'_>,
        (candidate, position): (&RebaseCandidate, usize),
        (table, head): (&TableMetadata, &ListBlocks),
    ) -> Result<Composition, Unapplied> {
        let clients = self.clients(files, candidate).await?;
        let client = clients.get(position).ok_or(NotRebased::Other)?;
        if !client.replaces() {
            return Ok(Composition { own: client.own().to_vec(), ..Composition::default() });
        }
        match self.replaced(files, (candidate, table), client, head).await {
            Ok(removed) => {
                let own = client.own().to_vec();
                Ok(Composition { own, removed, ..Composition::default() })
            }
            Err(reason) if !candidate.is_append() => Err(reason.into()),
            // The older files of the merged manifest are in other manifests of the branch. So the
            // branch needs only the added files.
            Err(_) => match self.extracted.get() {
                Some(Ok(added)) => Ok(Composition::of_added_files(client, added)),
                Some(Err(reason)) => Err(reason.clone().into()),
                None => Err(Unapplied::Postponed),
            },
        }
    }

    /// Writes the added files of merged manifests to new manifests in `directory`, unless the branch
    /// still has the manifests that were merged. Each new manifest exists before any list refers to
    /// it. If the commit fails, a job deletes the new manifests.
    pub(super) async fn extract_if_needed(
        &self,
        files: Files<'_>,
        (candidate, table): (&RebaseCandidate, &TableMetadata),
        head: &ListBlocks,
        extraction: Extraction<'_>,
    ) {
        // Only a commit of one snapshot may merge manifests.
        let composed = self.compose(files, (candidate, 0), (table, head)).await;
        if composed != Err(Unapplied::Postponed) {
            return;
        }
        let extract = || async {
            let clients = self.clients(files, candidate).await?;
            let [client] = clients else { return Err(NotRebased::Chain) };
            let [added] = candidate.added() else { return Err(NotRebased::Chain) };
            extraction.run(files, added.snapshot_id(), client.own()).await
        };
        self.extracted.get_or_init(extract).await;
    }

    /// Returns the paths of the manifests that the client has replaced, if they can be replaced in
    /// the current state of the branch.
    async fn replaced(
        &self,
        files: Files<'_>,
        (candidate, table): (&RebaseCandidate, &TableMetadata),
        client: &ClientManifests,
        head: &ListBlocks,
    ) -> Result<Vec<String>, NotRebased> {
        let read = || async {
            let base = candidate.base(table).ok_or(NotRebased::Replaced)?;
            let Files { objects, lists, record } = files;
            lists.of_branch(objects, record, table.format_version, Some(base)).await
        };
        let base = self.base.get_or_init(read).await.as_ref().map_err(NotRebased::clone)?;
        let replaced = client.replaced(base.entries())?;
        client.check_replaced(&replaced, base.entries(), head.entries())?;
        Ok(replaced.into_iter().map(|manifest| manifest.path).collect())
    }
}
