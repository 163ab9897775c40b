//! Dropping and renaming views.

use crate::mutation::Answer;
use crate::removal::Removal;
use crate::{Catalog, Operation, Result};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::Outcome;

impl Catalog {
    /// Drops a view. Its metadata files stay, so that it can be registered again.
    pub async fn drop_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            let removal = Removal {
                action: "drop_view",
                kind: TabularKind::View,
                ident: &ident,
                purge: None,
                outcome: |_| Outcome::Done,
            };
            catalog.remove(&operation, &warehouse, removal).await?;
            Ok(Answer::Done)
        })
        .await?;
        Ok(())
    }

    /// Gives a view another name, in the same namespace or another.
    pub async fn rename_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            let kind = TabularKind::View;
            catalog.rename(&operation, &warehouse, kind, &source, &destination).await
        })
        .await?;
        Ok(())
    }
}
