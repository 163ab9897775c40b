//! [`PreparedRebase`]: a commit that the server may rebase.

use tokio::sync::OnceCell;

use super::extraction::Extraction;
use super::lists::{self, Files, is_within};
use crate::append_rebase::AppendRebase;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::{ClientManifests, NotRebased, RebaseCandidate};
use slateberg_model::table::TableMetadata;
use slateberg_objects::manifest_list::ListBlocks;

/// A commit to a table whose appends may be rebased.
pub(crate) struct PreparedRebase {
    /// The candidate, or the reason why the commit cannot be rebased.
    candidate: Result<RebaseCandidate, NotRebased>,
    /// Whether the request declared its append as blind.
    declared: bool,
    /// The value of the property that the table inherits from its namespaces.
    inherited: AppendRebase,
    /// The manifests of the client. Set when the manifest list of the client has been read.
    client: OnceCell<Result<ClientManifests, NotRebased>>,
    /// The manifests of the snapshot that the client had loaded. Only read if the client has
    /// replaced some of them.
    base: OnceCell<Result<ListBlocks, NotRebased>>,
    /// Manifests with the files that the append adds, for an append that has merged manifests.
    extracted: OnceCell<Result<Vec<ManifestFile>, NotRebased>>,
}

/// The manifests with which a commit changes the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Composition {
    /// Manifests to add.
    pub(super) own: Vec<ManifestFile>,
    /// Paths of the manifests to remove.
    pub(super) removed: Vec<String>,
}

/// Reason why a commit is not rebased now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unapplied {
    /// It cannot be rebased.
    Refused(NotRebased),
    /// A manifest must be written first. The commit is prepared again outside of the lane.
    Postponed,
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
            client: OnceCell::new(),
            base: OnceCell::new(),
            extracted: OnceCell::new(),
        }
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

    /// Returns the manifests of the client. Reads its manifest list once.
    pub(super) async fn client(
        &self,
        files: Files<'_>,
        candidate: &RebaseCandidate,
    ) -> Result<&ClientManifests, NotRebased> {
        let read = || async {
            let list = lists::read(files.objects, files.record, candidate.manifest_list()).await?;
            let client = candidate.manifests(list.entries)?;
            if client.own().iter().all(|manifest| is_within(files.record, &manifest.path)) {
                Ok(client)
            } else {
                Err(NotRebased::Location)
            }
        };
        self.client.get_or_init(read).await.as_ref().map_err(NotRebased::clone)
    }

    /// Returns how the commit changes the branch, which has the manifests `head`.
    pub(super) async fn compose(
        &self,
        files: Files<'_>,
        (candidate, table): (&RebaseCandidate, &TableMetadata),
        head: &ListBlocks,
    ) -> Result<Composition, Unapplied> {
        let client = self.client(files, candidate).await?;
        if !client.replaces() {
            return Ok(Composition { own: client.own().to_vec(), removed: Vec::new() });
        }
        match self.replaced(files, (candidate, table), client, head).await {
            Ok(removed) => Ok(Composition { own: client.own().to_vec(), removed }),
            Err(reason) if !candidate.is_append() => Err(reason.into()),
            // The older files of the merged manifest are in other manifests of the branch. So the
            // branch needs only the added files.
            Err(_) => match self.extracted.get() {
                Some(Ok(own)) => Ok(Composition { own: own.clone(), removed: Vec::new() }),
                Some(Err(reason)) => Err(reason.clone().into()),
                None => Err(Unapplied::Postponed),
            },
        }
    }

    /// Writes the added files of merged manifests to new manifests in `directory`, unless the branch
    /// still has the manifests that were merged. Each new manifest exists before any list refers to
    /// it. If the commit fails, the new manifests remain as orphan files.
    pub(super) async fn extract_if_needed(
        &self,
        files: Files<'_>,
        (candidate, table): (&RebaseCandidate, &TableMetadata),
        head: &ListBlocks,
        extraction: Extraction<'_>,
    ) {
        let composed = self.compose(files, (candidate, table), head).await;
        if composed != Err(Unapplied::Postponed) {
            return;
        }
        let extract = || async {
            let client = self.client(files, candidate).await?;
            extraction.run(files, candidate, client.own()).await
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
