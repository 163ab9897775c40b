//! Default locations of tables and views.

use uuid::Uuid;

use slateberg_model::ident::NamespaceIdent;
use slateberg_model::warehouse::Warehouse;

/// Property of a namespace: the location of the tables in the namespace, as in Hive and Spark.
pub(crate) const LOCATION_PROPERTY: &str = "location";

/// Maximum size of a path segment that is derived from one name, in bytes. The limit of file
/// systems is 255.
const SEGMENT_BYTES_MAX: usize = 128;

/// Returns `<warehouse>/<level>/.../<name>-<id>`. The name makes the location readable. The id
/// makes the location unique. So after a table is renamed or dropped, the next table of the same
/// name gets another location.
pub(crate) fn default_location(
    warehouse: &Warehouse,
    namespace: &NamespaceIdent,
    namespace_location: Option<&str>,
    name: &str,
    id: Uuid,
) -> String {
    let parent = match namespace_location {
        Some(location) => location.trim_end_matches('/').to_owned(),
        None => namespace_location_in(warehouse, namespace),
    };
    format!("{parent}/{}-{}", segment(name), id.simple())
}

/// Returns `<warehouse>/<level>/...`: the location for the tables of a namespace without a
/// `location` property.
pub(crate) fn namespace_location_in(warehouse: &Warehouse, namespace: &NamespaceIdent) -> String {
    namespace.0.iter().fold(warehouse.storage.location.clone(), |mut location, level| {
        location.push('/');
        location.push_str(&segment(level));
        location
    })
}

/// Returns a name as a path segment without characters that clients, file systems or object stores
/// interpret.
fn segment(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().take(SEGMENT_BYTES_MAX).map(plain).collect()
}

/// Returns a location without trailing slashes, as Iceberg stores it.
pub(crate) fn without_trailing_slash(location: &str) -> String {
    let mut location = location;
    while let Some(shorter) = location.strip_suffix('/') {
        if [":", ":/", "://"].iter().any(|scheme| shorter.ends_with(scheme)) {
            break;
        }
        location = shorter;
    }
    location.to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use slateberg_model::warehouse::StorageProfile;

    #[test]
    fn default_locations_have_plain_names_and_unique_ids() {
        let warehouse = Warehouse {
            id: Uuid::nil(),
            name: "w".into(),
            storage: StorageProfile { location: "s3://b/w".into(), ..Default::default() },
            client_defaults: BTreeMap::new(),
            client_overrides: BTreeMap::new(),
            dropped_kept_seconds: None,
            maintenance: BTreeMap::new(),
            version: 0,
        };
        let namespace = NamespaceIdent(vec!["a.b".into(), "../c".into()]);
        let id = Uuid::nil();
        assert_eq!(
            default_location(&warehouse, &namespace, None, "ta ble/ü", id),
            format!("s3://b/w/a_b/___c/ta_ble__-{}", id.simple())
        );
        assert_eq!(
            default_location(&warehouse, &namespace, Some("s3://b/x/"), "t", id),
            format!("s3://b/x/t-{}", id.simple())
        );
    }

    #[test]
    fn trailing_slashes_are_removed_except_those_of_the_scheme() {
        assert_eq!(without_trailing_slash("s3://b/t//"), "s3://b/t");
        assert_eq!(without_trailing_slash("file:/t"), "file:/t");
        assert_eq!(without_trailing_slash("file:///"), "file:///");
    }
}
