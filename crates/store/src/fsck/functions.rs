//! Checks of functions, of dropped namespaces and functions, and of protections.

use super::Walk;
use super::record_index::RecordIndex;
use crate::error::Error;
use crate::invariants;
use crate::key_space::KeySpace;
use crate::keys::{DroppedFunctionKey, DroppedNamespaceKey, FunctionKey, ProtectionKey};
use crate::read::StoreRead;

impl<R: StoreRead> Walk<'_, R> {
    pub(super) async fn functions(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<FunctionKey>(KeySpace::Functions).await? {
            self.report.functions += 1;
            self.note(invariants::function(&key, &record));
            let namespace = self.index.namespaces.get(&record.namespace);
            if namespace.is_none_or(|namespace| namespace.warehouse != record.warehouse) {
                self.note(Err(format!(
                    "function {} is in a namespace that does not exist",
                    record.id
                )));
            }
            if !self.index.functions.insert(record.id) {
                self.note(Err(format!("the function {:?} has the id of another one", key.name)));
            }
        }
        Ok(())
    }

    pub(super) async fn dropped_namespaces(&mut self) -> Result<(), Error> {
        for (key, dropped) in self.all::<DroppedNamespaceKey>(KeySpace::DroppedNamespaces).await? {
            let (id, record) = (key.0, &dropped.record);
            if record.id != id {
                let other = record.id;
                self.note(Err(format!("the record of dropped namespace {id} has the id {other}")));
            }
            if self.index.namespaces.contains_key(&id) {
                self.note(Err(format!("{id} is both an existing and a dropped namespace")));
            }
            if !self.index.warehouses.contains(&record.warehouse) {
                self.note(Err(format!("dropped namespace {id} is in an unknown warehouse")));
            }
            self.index.dropped_namespaces.insert(id);
        }
        Ok(())
    }

    pub(super) async fn dropped_functions(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<DroppedFunctionKey>(KeySpace::DroppedFunctions).await? {
            let DroppedFunctionKey { namespace, name } = key;
            let is_dropped = self.index.dropped_namespaces.contains(&namespace);
            self.note(invariants::function(&FunctionKey { namespace, name }, &record));
            if !is_dropped {
                self.note(Err(format!(
                    "dropped function {} is in a namespace that is not dropped",
                    record.id
                )));
            }
            if !self.index.functions.insert(record.id) {
                self.note(Err(format!("dropped function {} has the id of another one", record.id)));
            }
        }
        Ok(())
    }

    pub(super) async fn protections(&mut self) -> Result<(), Error> {
        for (key, record) in self.all::<ProtectionKey>(KeySpace::Protections).await? {
            let RecordIndex { warehouses, namespaces, tabulars, functions, .. } = &self.index;
            let id = key.0;
            let exists = warehouses.contains(&id)
                || namespaces.contains_key(&id)
                || tabulars.contains_key(&id)
                || functions.contains(&id);
            if !exists {
                self.note(Err(format!("{} is protected, but does not exist", record.resource)));
            }
        }
        Ok(())
    }
}
