//! Dropping and renaming tables.

use crate::authz::action::{Drop, Purge};
use crate::catalog::lookup::Found;
use crate::catalog::mutation::Answer;
use crate::catalog::{Catalog, Operation, Result};
use crate::model::ident::{TabularIdent, TabularKind};
use crate::model::warehouse::Warehouse;
use crate::store::records::Outcome;

impl Catalog {
    /// Drops a table. With `purge` its files are deleted too, in the background.
    pub async fn drop_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
        purge: bool,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        self.mutate(operation, move |catalog, operation| async move {
            let what = (TabularKind::Table, &ident);
            let done = |_: &Found| Outcome::Done;
            if purge {
                let permit = operation.permit::<Purge>()?;
                let action = "purge_table";
                catalog.remove(&operation, &permit, action, &warehouse, what, true, done).await?;
            } else {
                let permit = operation.permit::<Drop>()?;
                let action = "drop_table";
                catalog.remove(&operation, &permit, action, &warehouse, what, false, done).await?;
            }
            Ok(Answer::Done)
        })
        .await?;
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
