//! Dropping and renaming tables.

use crate::mutation::Answer;
use crate::removal::Removal;
use crate::{Catalog, Operation, Result};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::Outcome;

impl Catalog {
    /// Drops a table. With `purge`, a background job deletes its files, and a short job is awaited.
    pub async fn drop_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
        purge: bool,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        let job = purge.then(|| self.ids().ordered());
        self.mutate(operation, move |catalog, operation| async move {
            let removal = Removal {
                action: if purge { "purge_table" } else { "drop_table" },
                kind: TabularKind::Table,
                ident: &ident,
                purge: job,
                outcome: |_| Outcome::Done,
            };
            catalog.remove(&operation, &warehouse, removal).await?;
            Ok(Answer::Done)
        })
        .await?;
        // Here the change is durable, and neither its lane nor that of its Idempotency-Key is held.
        if let Some(job) = job {
            self.await_purge(job).await;
        }
        Ok(())
    }

    /// Gives a table another name, in the same namespace or another.
    pub async fn rename_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            let kind = TabularKind::Table;
            catalog.rename(&operation, &warehouse, kind, &source, &destination).await
        })
        .await?;
        Ok(())
    }
}
