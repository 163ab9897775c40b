//! [`WarehouseLocation`]: the location of a configured warehouse.

use std::collections::BTreeMap;

use super::data_dir::data_dir_url;
use super::error::BuildError;
use slateberg_config::{Settings, WarehouseSettings};
use slateberg_objects as objects;
use slateberg_objects::location::Location;

/// The directory of warehouses, in the data directory.
pub(super) const DIRECTORY: &str = "warehouse";

/// The location of a warehouse and its options.
pub(super) struct WarehouseLocation {
    pub(super) location: String,
    pub(super) options: BTreeMap<String, String>,
}

impl WarehouseLocation {
    /// Returns the location that a clone's parent uses for a warehouse. A location in the bucket of
    /// the state is opened with the options of the state.
    pub(super) fn of_parent(
        settings: &Settings,
        location: &str,
        warehouse: &WarehouseSettings,
    ) -> Self {
        let bucket = |url: &str| {
            let parsed = Location::parse(url).ok();
            parsed.map(|it| (it.scheme().to_owned(), it.authority().to_owned()))
        };
        let mut options = warehouse.options.clone();
        let is_beside = bucket(location) == bucket(settings.state.url.trim_end_matches('/'));
        if is_beside {
            let base = settings.state.options.clone();
            options = objects::open::laid_over(location, base, &options);
        }
        Self { location: location.to_owned(), options }
    }

    /// Returns the configured location or, without one, the default location. If the state is in a
    /// bucket, the default is beside the state in this bucket, because such a catalog must not
    /// depend on the local disk. Otherwise, the default is in the data directory.
    pub(super) fn of(
        settings: &Settings,
        name: &str,
        warehouse: &WarehouseSettings,
    ) -> Result<Self, BuildError> {
        let options = warehouse.options.clone();
        let state = settings.state.url.trim_end_matches('/');
        match warehouse.location.trim_end_matches('/') {
            "" => {}
            location => return Ok(Self { location: location.to_owned(), options }),
        }
        let parsed = Location::parse(state).ok();
        let Some(bucket) = parsed.filter(|it| !matches!(it.scheme(), "file" | "memory")) else {
            let location = data_dir_url(settings, &format!("{DIRECTORY}/{name}"))?;
            return Ok(Self { location, options });
        };
        if bucket.path().is_empty() {
            return Err(BuildError::Setting(format!(
                "warehouses.{name}.location: expected a location, because the state occupies all of \
                 {state}"
            )));
        }
        let location = format!("{state}-{DIRECTORY}/{name}");
        let options = objects::open::laid_over(&location, settings.state.options.clone(), &options);
        Ok(Self { location, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(state: &str, location: &str) -> Result<WarehouseLocation, BuildError> {
        let mut settings = Settings { data_dir: "/data".into(), ..Settings::default() };
        settings.state.url = state.to_owned();
        settings.state.options = BTreeMap::from([("aws_region".to_owned(), "here".to_owned())]);
        let warehouse = WarehouseSettings { location: location.to_owned(), ..Default::default() };
        WarehouseLocation::of(&settings, "lake", &warehouse)
    }

    #[test]
    fn warehouse_without_a_location_is_beside_the_state() {
        let found = |state, location| {
            let WarehouseLocation { location, options } =
                located(state, location).expect("there is a place");
            (location, options.len())
        };
        let at = |location: &str, options| (location.to_owned(), options);
        assert_eq!(found("", ""), at("file:///data/warehouse/lake", 0));
        assert_eq!(found("file:///other", ""), at("file:///data/warehouse/lake", 0));
        assert_eq!(found("s3://b/p/", ""), at("s3://b/p-warehouse/lake", 1));
        assert_eq!(found("s3://b/p", "s3://c/w/"), at("s3://c/w", 0));
        let error = located("s3://b", "").map(|it| it.location).expect_err("there is none");
        assert!(error.to_string().starts_with("warehouses.lake.location: "), "{error}");
    }
}
