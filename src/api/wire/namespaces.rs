//! Converts recursive drops of namespaces from requests and to responses.

use slateberg_catalog::{DroppedTree, RecursiveDrop};
use slateberg_management::namespaces::{DropNamespaceRequest, DroppedNamespace};

/// Converts a request that drops a namespace.
pub fn recursive_drop(request: DropNamespaceRequest) -> RecursiveDrop {
    let DropNamespaceRequest { resource, dry_run } = request;
    RecursiveDrop { resource, dry_run }
}

/// Converts the dropped resources.
pub fn dropped_namespace(tree: DroppedTree) -> DroppedNamespace {
    let DroppedTree { namespaces, tables, views, functions, protected } = tree;
    DroppedNamespace { namespaces, tables, views, functions, protected }
}
