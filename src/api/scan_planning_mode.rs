//! [`ScanPlanningMode`]: whether clients plan the scans of a table, or the server does.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use slateberg_catalog::{Enforcement, ReadAccess, TabularState};
use slateberg_model::segmented_json::Segment;
use slateberg_model::table::FORMAT_VERSION_ADOPTED;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::location::Location;

/// Member of the configuration that clients get, and client property of a warehouse.
const CLIENT_PROPERTY: &str = "scan-planning-mode";
/// Property of tables. It has precedence over the client property of the warehouse.
const TABLE_PROPERTY: &str = "slateberg.scan-planning-mode";

/// Whether clients plan the scans of a table, or the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanPlanningMode {
    /// Clients plan.
    Client,
    /// The server plans.
    Server,
    /// Clients plan, whatever the properties of the table are. The client reads through views, and a
    /// request for a plan does not name them.
    OnlyClient,
}

/// The members of metadata that determine the mode.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    format_version: u8,
    location: String,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    #[serde(default)]
    snapshots: Vec<Snapshot>,
    #[serde(default)]
    metadata_log: Vec<LoggedMetadata>,
}

/// An earlier metadata file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedMetadata {
    metadata_file: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot {
    manifest_list: Option<String>,
    /// The key of an encrypted snapshot.
    key_id: Option<String>,
}

impl Metadata {
    fn of(state: &TabularState) -> Option<Self> {
        serde_json::from_slice(&state.text.to_bytes()).ok()
    }

    /// Whether the server can read the manifests, as far as the metadata shows this. Clients do not
    /// plan by themselves after the server has refused to plan.
    fn is_plannable(&self) -> bool {
        let prefix = self.location.trim_end_matches('/');
        let within = LazyCell::new(|| Location::parse(&self.location).ok());
        // Clients spell the same location differently. Hadoop writes `file:/` and `s3a://`.
        let is_own = |list: &str| match list.strip_prefix(prefix) {
            Some(rest) if rest.starts_with('/') && !rest.contains("/..") => true,
            _ => Location::parse(list)
                .ok()
                .zip(within.as_ref())
                .is_some_and(|(list, within)| list.is_within(within)),
        };
        let is_readable = |Snapshot { manifest_list, key_id }: &Snapshot| {
            key_id.is_none() && manifest_list.as_deref().is_some_and(is_own)
        };
        self.format_version <= FORMAT_VERSION_ADOPTED
            && self.snapshots.iter().all(is_readable)
            // The snapshots of a moved table may still have manifests at its earlier location.
            && self.metadata_log.iter().all(|logged| is_own(&logged.metadata_file))
    }
}

impl ScanPlanningMode {
    /// Returns the value of the client property.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client | Self::OnlyClient => "client",
            Self::Server => "server",
        }
    }

    /// Returns the name of the mode in the tag of a response.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::OnlyClient => "only-client",
        }
    }

    /// Returns the mode with this name. `None` for an unknown name.
    fn named(name: &str) -> Option<Self> {
        [Self::Client, Self::Server]
            .into_iter()
            .find(|mode| mode.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the mode that a warehouse prescribes to its clients.
    pub fn of_warehouse(warehouse: &Warehouse) -> Option<Self> {
        Self::named(warehouse.client_overrides.get(CLIENT_PROPERTY)?)
    }

    /// Returns the mode in the properties of a table.
    fn of_table(state: &TabularState) -> Option<Self> {
        // Most tables do not have the property, so the metadata is parsed only if it contains the
        // name of the property. Chunks contain no properties.
        let names_it = |segment: &Segment| match segment {
            Segment::Inline(bytes) => {
                std::str::from_utf8(bytes).is_ok_and(|text| text.contains(TABLE_PROPERTY))
            }
            Segment::Chunk(_) => false,
        };
        if !state.text.segments().iter().any(names_it) {
            return None;
        }
        Self::named(Metadata::of(state)?.properties.get(TABLE_PROPERTY)?)
    }

    /// Returns the mode for a table, if the table or its warehouse prescribes one. Clients plan the
    /// scans of tables whose manifests the server cannot read. The server plans no scans for callers
    /// that get no files because of read restrictions. Only the server can plan the scans of callers
    /// that may read only permitted files.
    pub fn of(
        state: &TabularState,
        access: &ReadAccess,
        of_warehouse: Option<Self>,
    ) -> Option<Self> {
        match access {
            ReadAccess::Whole
            | ReadAccess::Restricted { enforcement: Enforcement::TrustedEngine, .. } => {
                let mode = match of_warehouse {
                    Some(Self::OnlyClient) => of_warehouse,
                    _ => Self::of_table(state).or(of_warehouse),
                };
                let is_plannable = || Metadata::of(state).is_some_and(|it| it.is_plannable());
                match mode {
                    Some(Self::Server) if !is_plannable() => Some(Self::Client),
                    mode => mode,
                }
            }
            ReadAccess::Restricted { enforcement: Enforcement::PermittedFiles, .. } => {
                (of_warehouse != Some(Self::OnlyClient)).then_some(Self::Server)
            }
            ReadAccess::Restricted { enforcement: Enforcement::NoFiles, .. } => None,
        }
    }

    /// Adds the mode to the end of a `LoadTableResult`, which begins with its configuration.
    pub fn added_to(mode: Option<Self>, tail: Bytes) -> Bytes {
        let (Some(mode), Some(rest)) = (mode, tail.strip_prefix(br#","config":{"#)) else {
            return tail;
        };
        let separator = if rest.first() == Some(&b'}') { "" } else { "," };
        let name = mode.as_str();
        let head = format!(r#","config":{{"{CLIENT_PROPERTY}":"{name}"{separator}"#);
        [head.as_bytes(), rest].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_plannable(location: &str, manifest_list: &str) -> bool {
        let metadata = serde_json::json!({ "format-version": 2, "location": location,
            "snapshots": [{ "manifest-list": manifest_list }] });
        serde_json::from_value::<Metadata>(metadata).expect("valid metadata").is_plannable()
    }

    #[test]
    fn manifest_lists_are_recognized_in_all_spellings_of_the_location() {
        assert!(is_plannable("file:///lake/t", "file:///lake/t/metadata/snap-1.avro"));
        assert!(is_plannable("file:///lake/t", "file:/lake/t/metadata/snap-1.avro"));
        assert!(is_plannable("file:/lake/t/", "file:///lake/t/metadata/snap-1.avro"));
        assert!(is_plannable("s3://lake/t", "s3a://lake/t/metadata/snap-1.avro"));
    }

    #[test]
    fn table_that_was_moved_is_not_plannable() {
        let is_plannable = |logged: &str| {
            let metadata = serde_json::json!({ "format-version": 2, "location": "s3://lake/new",
                "snapshots": [{ "manifest-list": "s3://lake/new/metadata/snap-2.avro" }],
                "metadata-log": [{ "timestamp-ms": 1, "metadata-file": logged }] });
            serde_json::from_value::<Metadata>(metadata).expect("valid metadata").is_plannable()
        };
        assert!(is_plannable("s3://lake/new/metadata/1.metadata.json"));
        assert!(!is_plannable("s3://lake/old/metadata/1.metadata.json"));
    }

    #[test]
    fn manifest_lists_outside_of_the_location_are_not_plannable() {
        assert!(!is_plannable("file:///lake/t", "file:/lake/t2/metadata/snap-1.avro"));
        assert!(!is_plannable("file:///lake/t", "file:/lake/t/../u/metadata/snap-1.avro"));
        assert!(!is_plannable("s3://lake/t", "s3a://other/t/metadata/snap-1.avro"));
    }
}
