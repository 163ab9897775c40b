//! Tables and views. Both are the same kind of thing to the catalog: a name, a record, and versions of
//! metadata that commits replace. [`TabularMetadata`](metadata::TabularMetadata) is what they differ in.

pub(crate) mod builder;
pub(crate) mod change;
pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod group;
pub(crate) mod head;
pub(crate) mod load;
pub(crate) mod metadata;
pub(crate) mod register;
pub(crate) mod removal;
pub(crate) mod rename;
pub(crate) mod state;
pub(crate) mod target;
pub(crate) mod transaction;
pub(crate) mod write;
