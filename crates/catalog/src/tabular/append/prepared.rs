//! [`PreparedAppend`]: a commit that the server may rebase.

use tokio::sync::OnceCell;

use super::lists::{self, is_within};
use crate::append_rebase::AppendRebase;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::{Append, NotRebased};
use slateberg_model::table::TableMetadata;
use slateberg_objects::Objects;
use slateberg_store::records::TabularRecord;

/// A commit to a table whose appends may be rebased.
pub(crate) struct PreparedAppend {
    /// The append, or the reason why the commit is not an append.
    append: Result<Append, NotRebased>,
    /// Whether the request declared the append as blind.
    declared: bool,
    /// The value of the property that the table inherits from its namespaces.
    inherited: AppendRebase,
    /// The manifests that the append adds. Set when the manifest list of the client has been read.
    own: OnceCell<Result<Vec<ManifestFile>, NotRebased>>,
}

impl PreparedAppend {
    /// Creates a prepared append. `declared` is `true` if the request declared it as blind.
    pub(super) fn new(
        append: Result<Append, NotRebased>,
        declared: bool,
        inherited: AppendRebase,
    ) -> Self {
        Self { append, declared, inherited, own: OnceCell::new() }
    }

    /// Returns the append if it may be rebased onto this state.
    pub(super) fn permitted(
        &self,
        max: AppendRebase,
        table: &TableMetadata,
    ) -> Result<&Append, NotRebased> {
        let append = self.append.as_ref().map_err(NotRebased::clone)?;
        match max.min(AppendRebase::of(&table.properties).unwrap_or(self.inherited)) {
            AppendRebase::Off => return Err(NotRebased::Disabled),
            AppendRebase::Declared if !self.declared && !append.is_declared_blind() => {
                return Err(NotRebased::NotDeclared);
            }
            AppendRebase::Declared | AppendRebase::All => {}
        }
        append.check(table)?;
        Ok(append)
    }

    /// Returns the manifests that the append adds. Reads the manifest list of the client once.
    pub(super) async fn own(
        &self,
        objects: &Objects,
        record: &TabularRecord,
        append: &Append,
    ) -> Result<&[ManifestFile], NotRebased> {
        let read = || async {
            let list = lists::read(objects, record, append.manifest_list()).await?;
            let own = append.own_manifests(list.entries)?;
            if own.iter().all(|manifest| is_within(record, &manifest.path)) {
                Ok(own)
            } else {
                Err(NotRebased::Location)
            }
        };
        match self.own.get_or_init(read).await {
            Ok(own) => Ok(own),
            Err(reason) => Err(reason.clone()),
        }
    }
}
