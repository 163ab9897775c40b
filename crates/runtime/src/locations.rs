//! Checks that the locations of the catalog and of its warehouses in the settings do not overlap.

use super::data_dir::data_dir;
use super::error::BuildError;
use super::warehouse_location::WarehouseLocation;
use slateberg_config::Settings;
use slateberg_objects::location::Location;
use slateberg_objects::reserved::{Extent, Reservation, Reserved};
use slateberg_store::records::CloneOf;
use slateberg_telemetry::settings::AuditTo;

/// Description of the location of the state.
const STATE: &str = "the catalog's own state";
/// Schemes of object URLs that cannot be compared with other locations.
const NOT_COMPARABLE: [&str; 2] = ["http", "https"];

/// Returns the locations that the catalog reserves for itself if its state is at `state_url`.
pub fn reserved(settings: &Settings, state_url: &str) -> Result<Reserved, BuildError> {
    let state_setting = if settings.state.url.is_empty() { "data_dir" } else { "state.url" };
    let mut reserved = Reserved::default().with(at_url(state_setting, STATE, state_url)?);
    let log_url = settings.state.wal_url.trim_end_matches('/');
    if !log_url.is_empty() {
        let log = at_url("state.wal_url", "the log of the catalog's own state", log_url)?;
        if let Some(state) = reserved.overlapping(&log.extent) {
            let state = &state.url;
            return Err(BuildError::Setting(format!(
                "state.wal_url: cannot use location '{log_url}': it overlaps with the state's location, {state}. \
                 Set a location outside of the state"
            )));
        }
        reserved = reserved.with(log);
    }
    let data_dir = data_dir(settings)?;
    let cache = &settings.store.object_cache_dir;
    let key_file = &settings.encryption.local_key_file;
    let audit_file = Some(&settings.audit.file).filter(|_| settings.audit.to == AuditTo::File);
    let lock = settings.state.url.is_empty().then(|| data_dir.join("lock"));
    for (setting, what, path) in [
        ("data_dir", "the lock of the catalog", lock.as_ref()),
        ("store.object_cache_dir", "the catalog's object cache", Some(cache)),
        ("audit.file", "the catalog's audit log", audit_file),
        ("encryption.local_key_file", "the catalog's encryption key", Some(key_file)),
    ] {
        if let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) {
            let (url, extent) = (path.display().to_string(), Extent::of_path(path));
            reserved = reserved.with(Reservation { setting, what, url, extent });
        }
    }
    Ok(reserved)
}

/// Returns the reserved locations of a catalog that may be a clone. A clone shares objects with the
/// state of its parent, so the parent's state is reserved, too.
pub(super) fn of_clone(
    settings: &Settings,
    state_url: &str,
    clone_of: &Option<CloneOf>,
) -> Result<Reserved, BuildError> {
    let reserved = reserved(settings, state_url)?;
    let Some(CloneOf { parent_url, .. }) = clone_of else { return Ok(reserved) };
    let what = "the state of this clone's parent";
    Ok(reserved.with(at_url("state.url", what, parent_url)?))
}

/// Rejects a clone whose location overlaps with a warehouse of its parent. `settings` are the
/// settings of the parent.
pub(super) fn check_clone(
    settings: &Settings,
    parent_url: &str,
    url: &str,
) -> Result<(), BuildError> {
    let clone = at_url("clone", "the state of the clone", url)?;
    let reserved = reserved(settings, parent_url)?.with(clone);
    problems_with(settings, &reserved).into_iter().next().map_or(Ok(()), Err)
}

fn at_url(setting: &'static str, what: &'static str, url: &str) -> Result<Reservation, BuildError> {
    let location = comparable(url);
    let location =
        location.map_err(|reason| BuildError::Setting(format!("{setting}: {reason}")))?;
    Ok(Reservation { setting, what, url: url.to_owned(), extent: Extent::of(&location) })
}

fn comparable(url: &str) -> Result<Location, String> {
    let location = Location::parse(url).map_err(|error| error.to_string())?;
    if NOT_COMPARABLE.contains(&location.scheme()) {
        Err(format!("invalid location '{url}': expected s3://, gs://, az:// or file://"))
    } else {
        Ok(location)
    }
}

/// Returns all problems of the locations in these settings.
pub fn problems(settings: &Settings, state_url: &str) -> Vec<BuildError> {
    let reserved = match reserved(settings, state_url) {
        Ok(reserved) => reserved,
        Err(error) => return vec![error],
    };
    problems_with(settings, &reserved)
}

fn problems_with(settings: &Settings, reserved: &Reserved) -> Vec<BuildError> {
    let mut claims = ClaimedLocations::default();
    let mut problems = Vec::new();
    for (name, warehouse) in &settings.warehouses {
        // An invalid location is reported when the warehouse is opened.
        let Ok(located) = WarehouseLocation::of(settings, name, warehouse) else { continue };
        let urls = std::iter::once(&located.location).chain(&warehouse.allowed_locations);
        if let Err(overlap) = claims.add(reserved, name, urls) {
            problems.push(overlap.of_settings(name));
        }
    }
    problems
}

/// Rejects settings in which the state and the warehouses overlap.
pub(super) fn check(settings: &Settings, state_url: &str) -> Result<(), BuildError> {
    problems(settings, state_url).into_iter().next().map_or(Ok(()), Err)
}

/// The locations of warehouses, with the names of the warehouses.
#[derive(Default)]
pub(super) struct ClaimedLocations(Vec<(String, Extent)>);

/// The reason why a warehouse cannot use a location.
pub(super) struct Overlap {
    url: String,
    with: OverlapKind,
}

enum OverlapKind {
    /// The location cannot be compared with other locations. Contains the reason.
    Nothing(String),
    Reserved(Reservation),
    Warehouse(String),
}

impl ClaimedLocations {
    /// Adds the locations of a warehouse. Errors with the first overlap.
    pub(super) fn add<'a>(
        &mut self,
        reserved: &Reserved,
        name: &str,
        urls: impl Iterator<Item = &'a String>,
    ) -> Result<(), Overlap> {
        let mut own = Vec::new();
        let mut found = None;
        for url in urls {
            let with = match comparable(url) {
                Err(reason) => Some(OverlapKind::Nothing(reason)),
                Ok(location) => {
                    let extent = Extent::of(&location);
                    let with = self.overlapping(reserved, &extent);
                    own.push((name.to_owned(), extent));
                    with
                }
            };
            found = found.or(with.map(|with| Overlap { url: url.clone(), with }));
        }
        self.0.extend(own);
        found.map_or(Ok(()), Err)
    }

    fn overlapping(&self, reserved: &Reserved, extent: &Extent) -> Option<OverlapKind> {
        if let Some(reservation) = reserved.overlapping(extent) {
            return Some(OverlapKind::Reserved(reservation.clone()));
        }
        let other = self.0.iter().find(|(_, other)| other.overlaps(extent));
        other.map(|(name, _)| OverlapKind::Warehouse(name.clone()))
    }
}

impl Overlap {
    /// Returns the name of the overlapping warehouse.
    pub(super) fn other(&self) -> Option<&str> {
        match &self.with {
            OverlapKind::Warehouse(other) => Some(other),
            OverlapKind::Nothing(_) | OverlapKind::Reserved(_) => None,
        }
    }

    /// Returns the reason without advice.
    pub(super) fn reason(&self) -> String {
        let url = &self.url;
        match &self.with {
            OverlapKind::Nothing(reason) => reason.clone(),
            OverlapKind::Reserved(reservation) => {
                format!("cannot use location '{url}': {} is there", reservation.what)
            }
            OverlapKind::Warehouse(other) => format!(
                "cannot use location '{url}': it overlaps with the location of the warehouse {other}"
            ),
        }
    }

    /// Returns the error for settings, with advice for the operator.
    pub(super) fn of_settings(&self, name: &str) -> BuildError {
        let cure = match &self.with {
            OverlapKind::Nothing(_) => String::new(),
            OverlapKind::Reserved(Reservation { setting, url, what, .. }) if *what == STATE => {
                format!(
                    " ({url}). A principal that may delete files of a table there could delete the \
                 catalog. Set warehouses.{name}.location to another location. If tables are in this \
                 location, stop every server instead, move all files of the state to a location \
                 outside of the warehouses, and set {setting} to the new location"
                )
            }
            OverlapKind::Reserved(Reservation { setting, url, .. }) => {
                format!(" ({url}). Set warehouses.{name}.location or {setting} to another location")
            }
            OverlapKind::Warehouse(other) => format!(
                ". A principal that may read one warehouse could read the files of the other. Set another location for \
                 {name} or {other}"
            ),
        };
        BuildError::Setting(format!("warehouses.{name}.location: {}{cure}", self.reason()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::STATE_DIR;
    use slateberg_config::WarehouseSettings;

    fn messages(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = Settings { data_dir: "/no-such/data".into(), ..Settings::default() };
        change(&mut settings);
        let url = match settings.state.url.as_str() {
            "" => format!("file:///no-such/data/{STATE_DIR}"),
            url => url.to_owned(),
        };
        problems(&settings, &url).iter().map(ToString::to_string).collect()
    }

    fn warehouse(settings: &mut Settings, name: &str, location: &str) {
        let warehouse = WarehouseSettings { location: location.to_owned(), ..Default::default() };
        settings.warehouses.insert(name.to_owned(), warehouse);
    }

    #[test]
    fn default_layouts_do_not_overlap() {
        assert_eq!(messages(|_| {}), Vec::<String>::new());
        assert_eq!(messages(|it| it.state.url = "s3://b/catalog".to_owned()), Vec::<String>::new());
        let beside = messages(|it| {
            it.state.url = "s3://b/catalog/state".to_owned();
            warehouse(it, "default", "s3://b/catalog/warehouse");
            warehouse(it, "other", "s3://b/catalog/warehouse2");
        });
        assert_eq!(beside, Vec::<String>::new());
    }

    #[test]
    fn overlap_of_state_and_warehouse_is_detected_in_all_spellings() {
        for (state, location) in [
            ("s3://b/wh/state", "s3://b/wh"),
            ("s3://b/wh", "s3a://b/wh/tables"),
            ("s3://b/wh/", "s3://B/wh/"),
            ("abfss://c@one.dfs.core.windows.net/wh", "az://c/wh/x"),
            ("file:///no-such/wh/state", "file:///no-such/wh"),
        ] {
            let problems = messages(|it| {
                it.state.url = state.to_owned();
                warehouse(it, "default", location);
            });
            assert_eq!(problems.len(), 1, "{state} {location}: {problems:?}");
            assert!(
                problems[0].starts_with("warehouses.default.location: cannot use"),
                "{problems:?}"
            );
            assert!(problems[0].contains("the catalog's own state is there"), "{problems:?}");
            assert!(problems[0].contains("set state.url to the new"), "{problems:?}");
        }
        let problems = messages(|it| warehouse(it, "default", "file:///no-such/data"));
        assert!(problems[0].contains("set data_dir to the new"), "{problems:?}");
    }

    #[test]
    fn reserved_locations_are_compared_with_every_warehouse() {
        let problems = messages(|it| {
            it.state.url = "s3://b/state".to_owned();
            it.state.wal_url = "s3://b/wh/log".to_owned();
            it.store.object_cache_dir = "/no-such/one/cache".into();
            it.audit.to = AuditTo::File;
            it.audit.file = "/no-such/two/audit.log".into();
            it.encryption.local_key_file = "/no-such/three/key".into();
            warehouse(it, "default", "s3://b/wh");
            warehouse(it, "one", "file:///no-such/one");
            warehouse(it, "two", "file:///no-such/two");
            warehouse(it, "three", "s3://other/w");
            let three = it.warehouses.get_mut("three").expect("it exists");
            three.allowed_locations = vec!["file:///no-such/three".to_owned()];
        });
        for (number, what) in
            ["log", "object cache", "encryption key", "audit log"].into_iter().enumerate()
        {
            assert!(problems[number].contains(what), "{what}: {problems:#?}");
        }
    }

    #[test]
    fn overlapping_warehouses_are_detected() {
        let problems = messages(|it| {
            it.state.url = "s3://b/state".to_owned();
            warehouse(it, "default", "s3://b/wh");
            warehouse(it, "inside", "s3a://b/wh/inside");
            warehouse(it, "alone", "s3://c/wh");
            let alone = it.warehouses.get_mut("alone").expect("it exists");
            alone.allowed_locations = vec!["s3://c/wh/more".to_owned()];
        });
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("warehouses.inside.location: cannot use"), "{problems:?}");
        assert!(
            problems[0].contains("it overlaps with the location of the warehouse default"),
            "{problems:?}"
        );
    }

    #[test]
    fn location_that_cannot_be_compared_is_rejected() {
        for url in ["s3://b/wh/../state", "https://b.s3.us-east-1.amazonaws.com/state"] {
            let problems = messages(|it| it.state.url = url.to_owned());
            assert!(problems.len() == 1 && problems[0].starts_with("state.url: "), "{problems:?}");
        }
        let problems = messages(|it| {
            it.state.url = "s3://b/state".to_owned();
            it.state.wal_url = "s3://b/state/wal".to_owned();
        });
        assert!(problems.len() == 1 && problems[0].starts_with("state.wal_url: "), "{problems:?}");
    }
}
