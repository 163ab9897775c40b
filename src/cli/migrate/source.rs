//! The source of a migration: lists its namespaces, tables and views, and returns the locations of
//! their metadata files.

use std::collections::BTreeMap;

use super::arguments::{Kind, Migrate};
use super::error::MigrateError;
use super::source_objects::{Contents, LocatedMetadata, SourceNamespace, SourceTabular};
#[cfg(feature = "sql-migration")]
use super::sql;
use super::{locations, rest};
use slateberg_base::progress::Phase;
use slateberg_config::client as environment;

/// Explains how to build a binary that reads SQL catalogs.
#[cfg(not(feature = "sql-migration"))]
const WITHOUT_SQL: &str = "this build cannot read SQL catalogs: it does not contain SQLite. Build one that \
     can, in a checkout of slateberg: cargo install --locked --path . --features sql-migration";

/// A source.
pub(super) enum Source {
    Rest(Box<rest::Rest>),
    Located(locations::LocationReader),
}

impl Source {
    /// Opens the source and reads its contents.
    pub(super) async fn open(
        arguments: &Migrate,
        progress: &Phase,
    ) -> Result<(Self, Contents), MigrateError> {
        let (source, mut contents) = match arguments.from {
            Kind::Rest => {
                let source = rest::Rest::source(rest::SourceOptions {
                    url: &arguments.source,
                    warehouse: arguments.source_warehouse.as_deref(),
                    token: arguments.source_token.clone().or_else(environment::source_token),
                    credential: arguments
                        .source_credential
                        .clone()
                        .or_else(environment::source_credential),
                    oauth2_server_uri: arguments.source_oauth2_server_uri.as_deref(),
                    scope: &arguments.source_scope,
                });
                let source = source.await?;
                let contents = source.contents(progress).await?;
                (Self::Rest(Box::new(source)), contents)
            }
            #[cfg(not(feature = "sql-migration"))]
            Kind::Sql => return Err(MigrateError::new(WITHOUT_SQL)),
            #[cfg(feature = "sql-migration")]
            Kind::Sql => {
                let contents = sql::read(&arguments.source, arguments.source_catalog.as_deref())?;
                (Self::Located(locations::LocationReader::new(&arguments.source_options)), contents)
            }
            Kind::Locations => {
                let reader = locations::LocationReader::new(&arguments.source_options);
                let contents = reader.list(&arguments.source).await?;
                (Self::Located(reader), contents)
            }
        };
        add_ancestors(&mut contents);
        Ok((source, contents))
    }

    /// Returns the metadata location and UUID of a table or view.
    pub(super) async fn locate(
        &self,
        found: &SourceTabular,
    ) -> Result<LocatedMetadata, MigrateError> {
        match (self, &found.metadata_location) {
            (Self::Rest(rest), _) => rest.locate(found).await,
            (Self::Located(reader), Some(location)) => reader.locate(found.kind, location).await,
            (Self::Located(_), None) => {
                Err(MigrateError::new("the source has no metadata location for it"))
            }
        }
    }
}

/// Adds namespaces that the source does not list, although they contain listed tables, views or
/// namespaces. Sorts parents before their children.
fn add_ancestors(contents: &mut Contents) {
    let mut all: BTreeMap<Vec<String>, BTreeMap<String, String>> = BTreeMap::new();
    for found in contents.namespaces.drain(..) {
        all.entry(found.levels).or_default().extend(found.properties);
    }
    let namespaces: Vec<_> = all.keys().cloned().collect();
    let of_tabulars = contents.tabulars.iter().map(|found| &found.namespace);
    for levels in namespaces.iter().chain(of_tabulars) {
        for end in 1..=levels.len() {
            all.entry(levels[..end].to_vec()).or_default();
        }
    }
    // A parent sorts before its children.
    let found = all.into_iter().map(|(levels, properties)| SourceNamespace { levels, properties });
    contents.namespaces = found.collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_model::ident::TabularKind;

    #[test]
    fn ancestors_come_first_and_each_namespace_once() {
        let levels = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let properties = BTreeMap::from([("owner".to_owned(), "me".to_owned())]);
        let mut contents = Contents {
            namespaces: vec![SourceNamespace { levels: levels("a.b"), properties }],
            tabulars: ["a.b", "c.d.e"]
                .map(|namespace| SourceTabular {
                    kind: TabularKind::Table,
                    namespace: levels(namespace),
                    name: "t".to_owned(),
                    metadata_location: None,
                })
                .into(),
            ..Contents::default()
        };
        add_ancestors(&mut contents);
        let names: Vec<_> = contents.namespaces.iter().map(|it| it.levels.join(".")).collect();
        assert_eq!(names, ["a", "a.b", "c", "c.d", "c.d.e"]);
        assert_eq!(contents.namespaces[1].properties.len(), 1);
    }
}
