//! Sources without a catalog: directories with metadata files, and files that list metadata files.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::MigrateError;
use super::responses::TabularMetadata;
use super::source_objects::{Contents, LocatedMetadata, SourceTabular};
use slateberg_model::ident::TabularKind;
use slateberg_objects::metadata_discovery::{newest_metadata, read_metadata};

/// Suffix of the directory of a Hive database.
const HIVE_DATABASE: &str = ".db";

/// Reads metadata files at their locations.
pub(super) struct LocationReader {
    options: BTreeMap<String, String>,
}

impl LocationReader {
    pub(super) fn new(options: &[(String, String)]) -> Self {
        Self { options: options.iter().cloned().collect() }
    }

    /// Returns the tables that a list file names, or the tables below a directory or URL.
    pub(super) async fn list(&self, source: &str) -> Result<Contents, MigrateError> {
        if Path::new(source).is_file() {
            let text = std::fs::read_to_string(source);
            let text = text.map_err(|error| MigrateError::new(format!("{source}: {error}")))?;
            return parse_list(source, &text);
        }
        let url = if source.contains("://") {
            source.to_owned()
        } else {
            let path = std::fs::canonicalize(source);
            let path = path.map_err(|error| MigrateError::new(format!("{source}: {error}")))?;
            format!("file://{}", path.display())
        };
        let found = newest_metadata(&url, &self.options).await.map_err(MigrateError::new)?;
        let mut contents = Contents::default();
        for file in found {
            let Some((name, namespace)) = file.table.split_last() else {
                contents.failures.push(format!("{}: not in a table's directory", file.location));
                continue;
            };
            let level = |part: &String| part.strip_suffix(HIVE_DATABASE).unwrap_or(part).to_owned();
            contents.tabulars.push(SourceTabular {
                kind: TabularKind::Table,
                namespace: namespace.iter().map(level).collect(),
                name: name.clone(),
                metadata_location: Some(file.location),
            });
        }
        Ok(contents)
    }

    /// Reads a metadata file to get the UUID of its table or view.
    pub(super) async fn locate(
        &self,
        kind: TabularKind,
        location: &str,
    ) -> Result<LocatedMetadata, MigrateError> {
        let text = read_metadata(location, &self.options).await.map_err(MigrateError::new)?;
        let metadata: TabularMetadata = serde_json::from_slice(&text)
            .map_err(|error| MigrateError::new(format!("{location}: {error}")))?;
        metadata.at(kind, location.to_owned())
    }
}

/// Parses a list. Each line has a table's name with its namespace, a tab, and the location of the
/// metadata file.
fn parse_list(source: &str, text: &str) -> Result<Contents, MigrateError> {
    let mut contents = Contents::default();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let malformed = || {
            MigrateError::new(format!(
                "{source}: line {}: expected NAMESPACE.TABLE, a tab, and the location of the metadata file",
                number + 1
            ))
        };
        let (name, location) = line.split_once('\t').ok_or_else(malformed)?;
        let levels: Vec<String> = name.trim().split('.').map(str::to_owned).collect();
        let (name, namespace) = levels.split_last().ok_or_else(malformed)?;
        if levels.iter().any(String::is_empty) || location.trim().is_empty() {
            return Err(malformed());
        }
        contents.tabulars.push(SourceTabular {
            kind: TabularKind::Table,
            namespace: namespace.to_vec(),
            name: name.clone(),
            metadata_location: Some(location.trim().to_owned()),
        });
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_parsed_and_malformed_lines_are_reported() {
        let text = "# ours\n\nsales.eu.orders\ts3://b/orders/metadata/v1.metadata.json\n";
        let found = parse_list("list", text).expect("a valid list").tabulars;
        assert_eq!(found[0].namespace, ["sales", "eu"]);
        assert_eq!(found[0].name, "orders");
        for malformed in ["\norders s3://b/x", "\n.orders\ts3://b/x", "\nsales.orders\t "] {
            let error = parse_list("list", malformed).expect_err(malformed).to_string();
            assert!(error.starts_with("list: line 2:"), "{error}");
        }
    }
}
