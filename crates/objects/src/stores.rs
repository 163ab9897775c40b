//! Opens the stores of warehouses that are created at run time. Their creator is an administrator
//! of the catalog, not of the machine. So storage profiles may contain less than the configuration:
//! only options in [`option_allowlist`], and only local directories that are intended for
//! warehouses. The locations that the catalog has [`reserved`](super::reserved) are rejected as
//! well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::location::{AZURE, Location};
use super::open::{self, Opened, Opener};
use super::redact::redact;
use super::reserved::{Extent, Reserved};
use super::vend::Vendor;
use super::vend::files::{Files, Privileges};
use super::warehouse_files::Root;
use super::{option_allowlist, probe};
use slateberg_base::secret::Secret;
use slateberg_model::members::brief;
use slateberg_model::warehouse::StorageProfile;

/// Options of object stores, including secret ones.
pub type Credentials = BTreeMap<String, Secret>;

/// Maximum number of further locations of a warehouse.
const ALLOWED_LOCATIONS_MAX: usize = 100;

/// One scheme for each kind of store.
const SCHEMES: [&str; 3] = ["s3", "gs", AZURE[0]];
/// Minimum length of a secret in the environment. Shorter values, such as `true`, do not count as
/// secrets.
const AMBIENT_SECRET_BYTES_MIN: usize = 16;

/// Settings for opening stores.
#[derive(Clone)]
pub struct Stores {
    /// Opens URLs.
    pub opener: Opener,
    /// Options in the environment. If a profile names credentials, only the options in
    /// [`option_allowlist`] are used.
    pub ambient_options: BTreeMap<String, String>,
    /// Sets of credentials, by name.
    pub credentials: BTreeMap<String, Credentials>,
    /// Local directories that may contain warehouses.
    pub local_dirs: Vec<PathBuf>,
    /// Whether warehouses may be in memory, which is lost when the server stops.
    pub in_memory: bool,
    /// Locations of the catalog, where no warehouse may be.
    pub reserved: Reserved,
}

/// Open stores of a warehouse. The store of its own location comes first.
#[derive(Clone)]
pub struct Roots {
    /// All stores.
    pub all: Vec<Root>,
    /// The store of the warehouse's own location, for the probe.
    own: Opened,
}

/// Reason why a storage profile is rejected. The message is for the client and contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadStorage(pub String);

impl Stores {
    /// Checks a profile, and opens all of its locations. Sends no request.
    pub fn open(&self, profile: &StorageProfile) -> Result<Roots, BadStorage> {
        let locations = locations(profile)?;
        let credentials = self.credentials(profile)?;
        let mut own = None;
        let mut all = Vec::new();
        for (url, location) in locations {
            self.check_location(url, &location)?;
            check_options(&location, profile)?;
            let options = self.options(url, profile, credentials);
            let opened =
                open::check_options(url, &options).and_then(|()| (self.opener)(url, &options));
            let opened = opened.map_err(|error| BadStorage(self.redacted(&error.to_string())))?;
            let vendor = Vendor::open(&location, &options, &profile.access)
                .map_err(|error| BadStorage(self.redacted(&error.to_string())))?;
            let object_store = Arc::clone(&opened.object_store);
            own.get_or_insert(opened);
            all.push(Root { location, object_store, vendor: vendor.map(Arc::new) });
        }
        let own = own.ok_or_else(|| BadStorage("Expected a location".to_owned()))?;
        Ok(Roots { all, own })
    }

    /// Probes a warehouse's own location, for at most `at_most`. Then tests whether credentials can
    /// be vended.
    pub async fn probe(
        &self,
        roots: &Roots,
        id: uuid::Uuid,
        at_most: std::time::Duration,
        now_ms: i64,
    ) -> Result<(), BadStorage> {
        let Some(Root { location, vendor, .. }) = roots.all.first() else { return Ok(()) };
        let outcome = probe::probe(&roots.own, id, at_most).await;
        let wrong = |error: &str| {
            BadStorage(self.redacted(&format!("Cannot use location '{location}': {error}")))
        };
        outcome.map_err(|error| wrong(&error.to_string()))?;
        match vendor {
            Some(vendor) if vendor.vends() => {
                // The location is unused. The request tests whether the provider issues credentials
                // at all.
                let probe = format!("{location}/.slateberg-probe-{}", id.simple());
                let probe = Location::parse(&probe).map_err(|error| wrong(&error.to_string()))?;
                let privileges = Privileges { read: true, write: true, delete: true };
                let files = Files { table: id, locations: vec![probe], privileges };
                let vended = vendor.vend(&files, now_ms).await;
                let failed = |error| wrong(&format!("cannot vend credentials: {error}"));
                vended.map(|_| ()).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Removes the secrets of all stores from a string.
    fn redacted(&self, text: &str) -> String {
        redact(text, &self.secrets())
    }

    /// Returns the secrets of all stores.
    pub fn secrets(&self) -> Vec<Secret> {
        let ambient = self.ambient_options.iter().filter(|(option, value)| {
            value.len() >= AMBIENT_SECRET_BYTES_MIN
                && !SCHEMES
                    .iter()
                    .any(|scheme| option_allowlist::is_allowed_over_http(scheme, option))
        });
        let ambient = ambient.map(|(_, value)| Secret::new(value.as_str()));
        self.credentials.values().flat_map(BTreeMap::values).cloned().chain(ambient).collect()
    }

    fn credentials(&self, profile: &StorageProfile) -> Result<Option<&Credentials>, BadStorage> {
        let Some(name) = &profile.credentials else { return Ok(None) };
        let known = self.credentials.get(name);
        known.map(Some).ok_or_else(|| {
            let name: String = name.chars().take(100).collect();
            BadStorage(format!("There are no credentials '{name}' in the server's configuration"))
        })
    }

    /// Merges options. The options of the profile replace options of the environment, and the
    /// credentials replace both. If there are `credentials`, credentials of the environment are
    /// ignored.
    fn options(
        &self,
        url: &str,
        profile: &StorageProfile,
        credentials: Option<&Credentials>,
    ) -> BTreeMap<String, String> {
        let mut base = open::known_options(url, &self.ambient_options);
        let Some(credentials) = credentials else {
            return open::laid_over(url, base, &profile.options);
        };
        let scheme = Location::parse(url).map(|location| location.scheme().to_owned());
        base.retain(|option, _| {
            scheme
                .as_ref()
                .is_ok_and(|scheme| option_allowlist::is_allowed_over_http(scheme, option))
        });
        let revealed = credentials.iter().map(|(key, it)| (key.clone(), it.reveal().to_owned()));
        let options = open::laid_over(url, base, &profile.options);
        open::laid_over(url, options, &revealed.collect())
    }

    /// Rejects locations that are not for warehouses.
    fn check_location(&self, url: &str, location: &Location) -> Result<(), BadStorage> {
        let error =
            |reason: &str| Err(BadStorage(format!("Cannot use location '{location}': {reason}")));
        if let Some(reserved) = self.reserved.overlapping(&Extent::of(location)) {
            return error(&format!("{} is there", reserved.what));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let (bucket, account) = match location.authority().split_once('@') {
            Some((bucket, account)) if AZURE.contains(&location.scheme()) => (bucket, account),
            _ => (location.authority(), ""),
        };
        if !bucket.chars().chain(account.chars()).all(plain) {
            return error("expected the name of a bucket or container after the scheme");
        }
        match location.scheme() {
            "s3" | "gs" => Ok(()),
            scheme if AZURE.contains(&scheme) => Ok(()),
            "memory" if self.in_memory => Ok(()),
            "file" if !self.is_below_local_dirs(location) => error(
                "a local warehouse must be in its own directory below 'warehouse' in the data directory, or \
                 below a directory of catalog.local_warehouse_dirs, and the path may not contain symbolic links",
            ),
            "file" if !url.to_ascii_lowercase().starts_with("file:///") => {
                error(&format!("expected a URL that begins with file:///, got '{}'", brief(url)))
            }
            "file" => Ok(()),
            _ => error("expected a location on s3, gs, az, abfss or file"),
        }
    }

    /// Whether a location is below one of the directories for warehouses, without symbolic links on
    /// the way.
    fn is_below_local_dirs(&self, location: &Location) -> bool {
        let path = PathBuf::from(format!("/{}", location.path()));
        self.local_dirs.iter().any(|directory| {
            let Ok(below) = path.strip_prefix(directory) else { return false };
            !below.as_os_str().is_empty() && !has_link(directory, below)
        })
    }
}

/// Whether the path from a directory to a location below it contains a symbolic link, as far as the
/// path exists.
fn has_link(directory: &Path, below: &Path) -> bool {
    let mut way = directory.to_owned();
    below.components().any(|component| {
        way.push(component);
        std::fs::symlink_metadata(&way).is_ok_and(|found| found.file_type().is_symlink())
    })
}

/// Parses the locations of a profile. The warehouse's own location comes first.
fn locations(profile: &StorageProfile) -> Result<Vec<(&str, Location)>, BadStorage> {
    if profile.allowed_locations.len() > ALLOWED_LOCATIONS_MAX {
        return Err(BadStorage(format!(
            "Invalid allowed locations: expected at most {ALLOWED_LOCATIONS_MAX}, got {}",
            profile.allowed_locations.len()
        )));
    }
    let parsed = profile.locations().map(|url| {
        let location = Location::parse(url).map_err(|error| BadStorage(error.to_string()))?;
        Ok((url.as_str(), location))
    });
    parsed.collect()
}

fn check_options(location: &Location, profile: &StorageProfile) -> Result<(), BadStorage> {
    profile.options.iter().try_for_each(|(option, value)| {
        option_allowlist::check(location.scheme(), option, value)
            .map_err(|error| BadStorage(error.to_string()))
    })
}
