//! The database of a `PyIceberg` `SqlCatalog` or a Java `JdbcCatalog`, which share one schema.

use std::collections::BTreeMap;

use rusqlite::{Connection, OpenFlags, Result as SqlResult};

use super::error::MigrateError;
use super::source_objects::{Contents, SourceNamespace, SourceTabular};
use slateberg_model::ident::TabularKind;

/// The placeholder property that both libraries write for a namespace without properties.
const EXISTS: &str = "exists";

/// Reads the whole database.
pub(super) fn read(file: &str, catalog: Option<&str>) -> Result<Contents, MigrateError> {
    let at = |error: &dyn std::fmt::Display| MigrateError::new(format!("{file}: {error}"));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file_name = file.strip_prefix("sqlite://").unwrap_or(file);
    let mut database = Connection::open_with_flags(file_name, flags).map_err(|error| at(&error))?;
    // A single transaction gives a consistent view of all tables.
    let snapshot = database.transaction().map_err(|error| at(&error))?;
    let known = catalogs(&snapshot).map_err(|error| at(&error))?;
    let catalog = match (catalog, known.as_slice()) {
        (Some(wanted), known) if known.iter().any(|known| known == wanted) => wanted,
        (Some(wanted), _) => {
            return Err(at(&format!("there is no catalog '{wanted}', only {}", known.join(", "))));
        }
        (None, [only]) => only,
        (None, []) => return Ok(Contents::default()),
        (None, _) => {
            return Err(at(&format!("set --source-catalog to one of {}", known.join(", "))));
        }
    };
    let namespaces = namespaces(&snapshot, catalog).map_err(|error| at(&error))?;
    let tabulars = tabulars(&snapshot, catalog).map_err(|error| at(&error))?;
    Ok(Contents { namespaces, tabulars, ..Contents::default() })
}

fn catalogs(database: &Connection) -> SqlResult<Vec<String>> {
    let mut query = database.prepare(
        "SELECT catalog_name FROM iceberg_tables UNION \
         SELECT catalog_name FROM iceberg_namespace_properties ORDER BY 1",
    )?;
    query.query_map([], |row| row.get(0))?.collect()
}

fn namespaces(database: &Connection, catalog: &str) -> SqlResult<Vec<SourceNamespace>> {
    let mut query = database.prepare(
        "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties \
         WHERE catalog_name = ?1",
    )?;
    let rows = query.query_map([catalog], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
    })?;
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for row in rows {
        let (namespace, key, value) = row?;
        let properties = found.entry(namespace).or_default();
        if key != EXISTS {
            properties.insert(key, value.unwrap_or_default());
        }
    }
    let found = found.into_iter();
    Ok(found
        .map(|(name, properties)| SourceNamespace { levels: levels(&name), properties })
        .collect())
}

fn tabulars(database: &Connection, catalog: &str) -> SqlResult<Vec<SourceTabular>> {
    // Databases with views have a type column. Older ones contain only tables.
    let columns = database.prepare("SELECT * FROM iceberg_tables LIMIT 0")?;
    let kind = if columns.column_names().any(|name| name == "iceberg_type") {
        "iceberg_type"
    } else {
        "NULL"
    };
    let mut query = database.prepare(&format!(
        "SELECT table_namespace, table_name, metadata_location, {kind} FROM iceberg_tables \
         WHERE catalog_name = ?1 ORDER BY 1, 2"
    ))?;
    let rows = query.query_map([catalog], |row| {
        let namespace: String = row.get(0)?;
        let kind: Option<String> = row.get(3)?;
        Ok(SourceTabular {
            kind: match kind.as_deref() {
                Some("VIEW") => TabularKind::View,
                _ => TabularKind::Table,
            },
            namespace: levels(&namespace),
            name: row.get(1)?,
            metadata_location: row.get(2)?,
        })
    })?;
    rows.collect()
}

/// Splits a namespace at the dots that both libraries write between levels.
fn levels(namespace: &str) -> Vec<String> {
    namespace.split('.').map(str::to_owned).collect()
}
