//! Responses of Iceberg REST catalogs, with the members that a migration reads.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::MigrateError;
use super::source_objects::LocatedMetadata;
use slateberg_model::ident::TabularKind;

/// The schema `CatalogConfig`.
#[derive(Deserialize)]
pub(super) struct CatalogConfig {
    overrides: Option<BTreeMap<String, String>>,
    defaults: Option<BTreeMap<String, String>>,
    pub(super) endpoints: Option<Vec<String>>,
}

impl CatalogConfig {
    /// Returns a setting. Overrides have priority over defaults.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        let maps = [&self.overrides, &self.defaults];
        maps.into_iter().flatten().find_map(|settings| settings.get(name)).map(String::as_str)
    }
}

/// The schema `OAuthTokenResponse`.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
}

/// The schema `ErrorModel` in `IcebergErrorResponse`.
#[derive(Deserialize)]
pub(super) struct ErrorResponse {
    pub(super) error: ErrorModel,
}

#[derive(Deserialize)]
pub(super) struct ErrorModel {
    pub(super) message: String,
}

/// One page of a list: the schemas `ListNamespacesResponse` and `ListTablesResponse`, which is also
/// the list of views.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Page<T> {
    #[serde(default = "Vec::new", alias = "namespaces", alias = "identifiers")]
    pub(super) items: Vec<T>,
    pub(super) next_page_token: Option<String>,
}

/// The schema `TableIdentifier`.
#[derive(Deserialize)]
pub(super) struct TabularIdentifier {
    pub(super) name: String,
}

/// The schema `GetNamespaceResponse`.
#[derive(Deserialize)]
pub(super) struct Namespace {
    properties: Option<BTreeMap<String, String>>,
}

impl Namespace {
    /// Returns the properties. According to the specification, a catalog without support for them
    /// returns `null`.
    pub(super) fn into_properties(self) -> BTreeMap<String, String> {
        self.properties.unwrap_or_default()
    }
}

/// The schemas `LoadTableResult` and `LoadViewResult`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LoadedTabular {
    metadata_location: Option<String>,
    metadata: TabularMetadata,
}

impl LoadedTabular {
    /// Returns the metadata location and the UUID.
    pub(super) fn located(self, kind: TabularKind) -> Result<LocatedMetadata, MigrateError> {
        let location = self.metadata_location.ok_or_else(|| {
            MigrateError::new("the response of the catalog has no metadata-location")
        })?;
        self.metadata.at(kind, location)
    }
}

/// The UUID in the metadata of a table or view.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct TabularMetadata {
    table_uuid: Option<String>,
    view_uuid: Option<String>,
}

impl TabularMetadata {
    /// Adds the location from which the metadata was read.
    pub(super) fn at(
        self,
        kind: TabularKind,
        metadata_location: String,
    ) -> Result<LocatedMetadata, MigrateError> {
        let uuid = match kind {
            TabularKind::Table => self.table_uuid,
            TabularKind::View => self.view_uuid,
        };
        let uuid = uuid.ok_or_else(|| MigrateError::new("its metadata has no uuid"))?;
        Ok(LocatedMetadata { metadata_location, uuid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_with_null_members_has_no_settings() {
        let text = r#"{"defaults":null,"overrides":{"prefix":"p"},"endpoints":null}"#;
        let config: CatalogConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.setting("prefix"), Some("p"));
        assert_eq!(config.setting("namespace-separator"), None);
        assert!(config.endpoints.is_none());
    }

    #[test]
    fn a_namespace_with_properties_of_another_type_is_not_read_as_one_without_properties() {
        assert!(serde_json::from_str::<Namespace>(r#"{"properties":["a"]}"#).is_err());
        let without: Namespace = serde_json::from_str(r#"{"properties":null}"#).unwrap();
        assert!(without.into_properties().is_empty());
    }

    #[test]
    fn a_list_with_a_malformed_name_is_not_read_as_a_shorter_list() {
        let text = r#"{"identifiers":[{"namespace":["a"],"name":"t"},{"namespace":["a"]}]}"#;
        assert!(serde_json::from_str::<Page<TabularIdentifier>>(text).is_err());
        let text = r#"{"namespaces":[["a"],["b",1]],"next-page-token":null}"#;
        assert!(serde_json::from_str::<Page<Vec<String>>>(text).is_err());
        let page: Page<Vec<String>> = serde_json::from_str(r#"{"namespaces":[["a"]]}"#).unwrap();
        assert_eq!(page.items, [["a"]]);
    }
}
