//! Conversion between the types of the `iceberg` crate and the types of the catalog.
//!
//! Names are converted directly. Types with validation rules (schemas, specs, orders, updates,
//! requirements) are converted to the JSON that a REST client would send, so that the parser of
//! REST requests validates them, too. Metadata is converted from the JSON that a REST client would
//! receive.

use iceberg::spec::TableMetadata;
use iceberg::{ErrorKind, TableCommit, TableCreation, TableIdent};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{Error, Result};
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::TableChange;
use slateberg_model::create::FORMAT_VERSION_PROPERTY;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::partition::UnboundPartitionSpec;
use slateberg_model::refusal::Refusal;
use slateberg_model::requirement::parse_requirement;
use slateberg_model::schema::Schema;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::sort::UnboundSortOrder;
use slateberg_model::update::TableUpdate;

/// Converts the name of a namespace.
pub(super) fn namespace_of(ident: &iceberg::NamespaceIdent) -> NamespaceIdent {
    NamespaceIdent(ident.to_vec())
}

/// Converts the name of a table.
pub(super) fn table_of(ident: &TableIdent) -> TabularIdent {
    TabularIdent { namespace: namespace_of(&ident.namespace), name: ident.name.clone() }
}

/// Returns the namespace `name` directly below `parent`, or at the top level.
pub(super) fn namespace_below(
    parent: Option<&iceberg::NamespaceIdent>,
    name: &str,
) -> iceberg::Result<iceberg::NamespaceIdent> {
    let levels = parent.map(|parent| parent.to_vec()).unwrap_or_default();
    iceberg::NamespaceIdent::from_vec([levels, vec![name.to_owned()]].concat())
}

/// Converts the creation of a table in a namespace.
pub(super) fn creation_of(
    namespace: &iceberg::NamespaceIdent,
    creation: TableCreation,
) -> Result<CreateTable> {
    let TableCreation {
        name,
        location,
        schema,
        partition_spec,
        sort_order,
        properties,
        format_version,
    } = creation;
    let partition_spec = partition_spec.map(|spec| validate(&spec, UnboundPartitionSpec::parse));
    let write_order = sort_order.map(|order| validate(&order, UnboundSortOrder::parse));
    let mut properties = properties.into_iter().collect::<std::collections::BTreeMap<_, _>>();
    // Over HTTP, the format version is an optional property. Here it is a field that always has a
    // value.
    let version = (format_version as u8).to_string();
    let previous = properties.insert(FORMAT_VERSION_PROPERTY.to_owned(), version.clone());
    if let Some(previous) = previous.filter(|previous| *previous != version) {
        return Err(Error::Invalid(format!(
            "Invalid table: the property {FORMAT_VERSION_PROPERTY} is {previous}, but the format version is {version}"
        )));
    }
    Ok(CreateTable {
        ident: TabularIdent { namespace: namespace_of(namespace), name },
        location,
        schema: validate(&schema, Schema::parse)?,
        partition_spec: partition_spec.transpose()?,
        write_order: write_order.transpose()?,
        properties,
        stage: false,
    })
}

/// Converts a commit to a table.
pub(super) fn change_of(mut commit: TableCommit) -> Result<TableChange> {
    let requirements = commit.take_requirements();
    let updates = commit.take_updates();
    let requirements = requirements.iter().map(|it| validate(it, parse_requirement));
    let updates = updates.iter().map(|it| validate(it, TableUpdate::parse));
    Ok(TableChange {
        ident: table_of(commit.identifier()),
        requirements: requirements.collect::<Result<_>>()?,
        updates: updates.collect::<Result<_>>()?,
        blind_append: false,
    })
}

/// Converts the metadata of a table. Errors if the `iceberg` crate does not support the metadata:
/// the crate supports less than the specification.
pub(super) fn metadata_of(
    ident: &TableIdent,
    text: &SegmentedJson,
) -> iceberg::Result<TableMetadata> {
    serde_json::from_slice(&text.to_bytes()).map_err(|error| {
        let message = format!("the iceberg crate cannot read the metadata of {ident}");
        iceberg::Error::new(ErrorKind::FeatureUnsupported, message).with_source(error)
    })
}

fn validate<T>(
    members: &impl Serialize,
    parse: impl Fn(&RawValue) -> std::result::Result<T, Refusal>,
) -> Result<T> {
    let json = to_raw_value(members).map_err(|error| Error::Invalid(error.to_string()))?;
    Ok(parse(&json)?)
}
