//! Builds the served warehouses from the configuration and from the records of warehouses created
//! through the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::data_dir::data_dir;
use super::error::BuildError;
use super::locations::{self, ClaimedLocations, Overlap};
use super::warehouse_location::{DIRECTORY, WarehouseLocation};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::ids::Ids;
use slateberg_base::setting::InvalidSetting;
use slateberg_catalog::warehouses::change::is_same_location;
use slateberg_catalog::warehouses::served_warehouses::{Entry, ServedWarehouses, storage_of};
use slateberg_config::{Settings, WarehouseSettings};
use slateberg_model::warehouse::{self, StorageProfile, Warehouse};
use slateberg_objects::location::Location;
use slateberg_objects::open::{OpenError, Opened, Opener};
use slateberg_objects::option_allowlist::is_allowed_over_http;
use slateberg_objects::stores::Stores;
use slateberg_objects::vend::Vendor;
use slateberg_objects::warehouse_files::Root;
use slateberg_objects::{self as objects, Objects};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{NamespaceNameKey, StoreKey, WarehouseKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{CloneOf, WarehouseRecord};
use slateberg_store::{self as store, Store};

/// Returns the factory of object stores for warehouses created through the API.
pub fn stores(
    settings: &Settings,
    opener: &Opener,
    state_url: &str,
    clone_of: &Option<CloneOf>,
) -> Result<Stores, BuildError> {
    let mut local_dirs = settings.catalog.local_warehouse_dirs.clone();
    if let Some(directory) = local_dirs.iter().find(|directory| !directory.is_absolute()) {
        let directory = directory.display();
        return Err(BuildError::Setting(format!(
            "catalog.local_warehouse_dirs: {directory}: expected an absolute path"
        )));
    }
    local_dirs.push(data_dir(settings)?.join(DIRECTORY));
    Ok(Stores {
        opener: opener.clone(),
        ambient_options: settings.ambient_options.clone(),
        credentials: settings.credentials.clone(),
        local_dirs,
        in_memory: state_url.starts_with("memory:"),
        reserved: locations::of_clone(settings, state_url, clone_of)?,
    })
}

/// The inputs for opening the configured warehouses.
pub(super) struct WarehouseInputs<'a> {
    pub(super) settings: &'a Settings,
    pub(super) opener: &'a Opener,
    pub(super) ids: &'a dyn Ids,
    pub(super) permit: &'a Permit<Maintain>,
    pub(super) now_ms: i64,
    /// The parent, if this catalog is a clone. A clone's warehouses are at its parent's locations.
    pub(super) clone_of: Option<&'a CloneOf>,
}

/// Opens all warehouses. Errors if a configured warehouse cannot be opened. If a warehouse from the
/// API cannot be opened, it is unavailable, and all others are served.
pub(super) async fn open_all(
    opening: &WarehouseInputs<'_>,
    store: &Store,
    stores: &Stores,
) -> Result<ServedWarehouses, BuildError> {
    let WarehouseInputs { settings, opener, ids, permit, now_ms, clone_of } = opening;
    let failed = BuildError::Warehouses;
    let mut served = ServedWarehouses::new(&settings.default_warehouse);
    served.objects = served.objects.guarding(stores.secrets()).reserving(stores.reserved.clone());
    served.objects = served.objects.reading(settings.catalog.file_bytes_max);
    let mut claims = ClaimedLocations::default();
    for (name, warehouse) in &settings.warehouses {
        let known = store.durable().get(&WarehouseKey(name.clone())).await.map_err(failed)?;
        let parents = known.as_ref().filter(|_| clone_of.is_some());
        let parents = parents.map(|known| known.location.as_str());
        let configured = ConfiguredLocations::new(settings, name, warehouse, parents, opener)?;
        let urls = std::iter::once(&configured.location).chain(&warehouse.allowed_locations);
        let claimed = claims.add(&stores.reserved, name, urls);
        claimed.map_err(|overlap| overlap.of_settings(name))?;
        warn_if_moved(name, warehouse, known.as_ref(), &configured.location);
        check_configured_over_api(name, known.as_ref(), &configured.location)?;
        let (location, id) = (&configured.location, ids.random());
        let record = store.ensure_warehouse(permit, name, location, id, *now_ms).await;
        let entry = configured.entry(name, warehouse, record.map_err(failed)?);
        served = served.with_roots(entry, Ok(configured.roots));
    }
    for (name, record) in records(&store.durable()).await.map_err(failed)? {
        let Some(definition) = &record.definition else {
            warn_if_unconfigured(&name, &record, settings, store).await?;
            continue;
        };
        let storage = storage_of(&record.location, definition);
        let claimed = claims.add(&stores.reserved, &name, storage.locations());
        let opened = match claimed {
            Ok(()) => stores.open(&storage).map_err(|error| error.to_string()),
            Err(overlap) => Err(reject_contradiction(&name, &overlap, &served)?),
        };
        if let Err(reason) = &opened {
            tracing::error!(warehouse = name, reason, "a warehouse cannot be served");
        }
        served = served.with(Entry::from_record(&name, record.clone(), definition), opened);
    }
    Ok(served)
}

/// Checks a configured warehouse if a warehouse of the same name was created through the API: both
/// must have the same location. From then on, the configuration defines the warehouse.
fn check_configured_over_api(
    name: &str,
    known: Option<&WarehouseRecord>,
    location: &str,
) -> Result<(), BuildError> {
    let Some(made) = known.filter(|known| known.definition.is_some()) else { return Ok(()) };
    if !is_same_location(&made.location, location) {
        return Err(BuildError::Setting(format!(
            "warehouses.{name}: a warehouse of this name was created through the API with location {created}, but the \
             configuration has location {location}: rename the warehouse in the configuration, or set \
             its location to {created}",
            created = made.location
        )));
    }
    tracing::warn!(
        warehouse = name,
        "a warehouse of the configuration replaces one that was created through the API"
    );
    Ok(())
}

/// Warns if the default location of a warehouse has changed since an earlier start.
fn warn_if_moved(
    name: &str,
    warehouse: &WarehouseSettings,
    known: Option<&WarehouseRecord>,
    location: &str,
) {
    if let Some(known) = known
        && warehouse.location.is_empty()
        && !is_same_location(&known.location, location)
    {
        tracing::warn!(
            warehouse = name,
            location,
            before = known.location,
            "the default location of the warehouse has changed, because the location of the state has changed: if the \
             warehouse has tables, set its old location in the settings"
        );
    }
}

/// Warns about tables that are unavailable because their warehouse was removed from the
/// configuration.
async fn warn_if_unconfigured(
    name: &str,
    record: &WarehouseRecord,
    settings: &Settings,
    store: &Store,
) -> Result<(), BuildError> {
    if settings.warehouses.contains_key(name) {
        return Ok(());
    }
    // A warehouse without namespaces contains no tables, so it needs no warning.
    let namespaces = KeyRange::below(KeySpace::NamespaceNames, record.id);
    let found = store.durable().scan::<NamespaceNameKey>(&namespaces, Some(1)).await;
    if !found.map_err(BuildError::Warehouses)?.is_empty() {
        tracing::warn!(
            warehouse = name,
            location = record.location,
            "the warehouse is missing from the settings and is not served: to serve its tables, add \
             [warehouses.{name}] with this location"
        );
    }
    Ok(())
}

/// Errors if a warehouse from the API overlaps with a configured warehouse, because the settings
/// are then wrong. For any other overlap, returns the reason why the warehouse from the API is not
/// served.
fn reject_contradiction(
    name: &str,
    overlap: &Overlap,
    served: &ServedWarehouses,
) -> Result<String, BuildError> {
    let others = overlap.other().and_then(|other| served.find(Some(other)).ok());
    match others.filter(|other| other.is_configured()) {
        None => Ok(overlap.reason()),
        Some(other) => {
            let other = &other.warehouse.name;
            Err(BuildError::Setting(format!(
                "warehouses.{other}.location: the warehouse {name}, which was created through the API, {}. Set \
                 another location for {other}",
                overlap.reason()
            )))
        }
    }
}

/// Opens the object stores of all warehouses, for commands that read the catalog's store while no
/// server runs.
pub(super) async fn offline_objects(
    settings: &Settings,
    opener: &Opener,
    store: &impl StoreRead,
    stores: &Stores,
) -> Result<Objects, BuildError> {
    let format = store.get(&StoreKey).await.map_err(BuildError::Warehouses)?;
    let is_clone = format.is_some_and(|format| format.clone_of.is_some());
    let mut objects = Objects::default().reading(settings.catalog.file_bytes_max);
    objects = objects.reserving(stores.reserved.clone());
    for (name, record) in records(store).await.map_err(BuildError::Warehouses)? {
        objects = match (settings.warehouses.get(&name), &record.definition) {
            (Some(configured), _) => {
                let parents = is_clone.then_some(record.location.as_str());
                let configured =
                    ConfiguredLocations::new(settings, &name, configured, parents, opener)?;
                objects.with(record.id, configured.roots)
            }
            (None, Some(definition)) => {
                match stores.open(&storage_of(&record.location, definition)) {
                    Ok(roots) => objects.with(record.id, roots.all),
                    Err(error) => objects.with_unavailable(record.id, error.to_string()),
                }
            }
            (None, None) => objects,
        };
    }
    Ok(objects)
}

async fn records(store: &impl StoreRead) -> Result<Vec<(String, WarehouseRecord)>, store::Error> {
    let range = KeyRange::all(KeySpace::WarehouseNames);
    let found = store.scan::<WarehouseKey>(&range, None).await?;
    Ok(found.into_iter().map(|(key, record)| (key.0, record)).collect())
}

/// The location of a configured warehouse, and further allowed locations of its tables.
pub struct ConfiguredLocations {
    /// The URL of the location.
    pub location: String,
    options: BTreeMap<String, String>,
    roots: Vec<Root>,
    /// The object stores of all locations, with their URLs.
    pub opened: Vec<(String, Opened)>,
}

impl ConfiguredLocations {
    /// Opens a configured warehouse. In a clone, `parents` is the location that the parent uses for
    /// this warehouse.
    pub fn new(
        settings: &Settings,
        name: &str,
        warehouse: &WarehouseSettings,
        parents: Option<&str>,
        opener: &Opener,
    ) -> Result<Self, BuildError> {
        let at = |reason: String| BuildError::Setting(format!("warehouses.{name}: {reason}"));
        warehouse::validate_name(name).map_err(|refusal| at(refusal.to_string()))?;
        let configured = match parents.filter(|_| warehouse.location.is_empty()) {
            Some(location) => WarehouseLocation::of_parent(settings, location, warehouse),
            None => WarehouseLocation::of(settings, name, warehouse)?,
        };
        let WarehouseLocation { location, options } = configured;
        let urls = std::iter::once(&location).chain(&warehouse.allowed_locations);
        let access = warehouse.access.clone().into();
        let (mut roots, mut all_opened) = (Vec::new(), Vec::new());
        for url in urls {
            let parsed = Location::parse(url).map_err(|error| at(error.to_string()))?;
            let key = if *url == location { "location" } else { "allowed_locations" };
            let keys = Keys {
                url: format!("warehouses.{name}.{key}"),
                options: format!("warehouses.{name}.options"),
                own: &warehouse.options,
            };
            let opened = open(url, &options, settings, opener, &keys)?;
            let object_store = Arc::clone(&opened.object_store);
            all_opened.push((url.clone(), opened));
            let options = all_options(url, &options, settings);
            let vendor = Vendor::open(&parsed, &options, &access);
            let vendor = vendor.map_err(|error| at(error.to_string()))?.map(Arc::new);
            roots.push(Root { location: parsed, object_store, vendor });
        }
        Ok(Self { location, options, roots, opened: all_opened })
    }

    /// Returns the locations.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the warehouse as the catalog serves it, without options that could be secrets.
    fn entry(&self, name: &str, configured: &WarehouseSettings, record: WarehouseRecord) -> Entry {
        let scheme = self.roots.first().map_or("", |root| root.location.scheme());
        let public_options =
            self.options.iter().filter(|(option, _)| is_allowed_over_http(scheme, option));
        let storage = StorageProfile {
            location: self.location.clone(),
            allowed_locations: configured.allowed_locations.clone(),
            options: public_options
                .map(|(option, value)| (option.clone(), value.clone()))
                .collect(),
            credentials: None,
            access: configured.access.clone().into(),
        };
        let warehouse = Warehouse {
            id: record.id,
            name: name.to_owned(),
            storage,
            client_defaults: configured.client_defaults.clone(),
            client_overrides: configured.client_overrides.clone(),
            dropped_kept_seconds: configured.dropped_kept_seconds,
            maintenance: configured.maintenance.clone(),
            version: 0,
        };
        Entry { warehouse: warehouse.into(), record: record.into(), shut: None }
    }
}

/// The options that are set for a URL. Also contains the settings keys of the URL and of its
/// options, for error messages.
pub(super) struct Keys<'a> {
    pub(super) url: String,
    pub(super) options: String,
    pub(super) own: &'a BTreeMap<String, String>,
}

/// Opens a URL with its own options and with options from the environment. Its own options take
/// precedence.
pub(super) fn open(
    url: &str,
    options: &BTreeMap<String, String>,
    settings: &Settings,
    opener: &Opener,
    keys: &Keys<'_>,
) -> Result<Opened, BuildError> {
    objects::open::check_options(url, keys.own)
        .and_then(|()| opener(url, &all_options(url, options, settings)))
        .map_err(|error| BuildError::Invalid(vec![keys.invalid(error)]))
}

impl Keys<'_> {
    /// Assigns the error to the settings key of the option or URL that caused the error.
    fn invalid(&self, error: OpenError) -> InvalidSetting {
        let option = error.option.as_ref().filter(|option| self.own.contains_key(*option));
        let (key, message) = match option {
            Some(option) => (format!("{}.{option}", self.options), error.reason),
            None => (self.url.clone(), format!("cannot open {}: {}", error.url, error.reason)),
        };
        InvalidSetting { help: error.help, ..InvalidSetting::new(key, message) }
    }
}

/// Merges a URL's own options with options from the environment. An option of the URL replaces an
/// option from the environment with the same meaning, even if the names of the two options differ.
fn all_options(
    url: &str,
    options: &BTreeMap<String, String>,
    settings: &Settings,
) -> BTreeMap<String, String> {
    let ambient = objects::open::known_options(url, &settings.ambient_options);
    objects::open::laid_over(url, ambient, options)
}
