//! Locations that must not overlap: the locations of the catalog itself, and the locations of
//! warehouses.
//!
//! Locations are compared in all of their forms: as written, and with percent-encoded characters
//! decoded. In the local file system, they are also compared with symbolic links resolved. The
//! endpoint of a bucket and the account of a container are ignored, because a bucket can be reached
//! in several ways.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::location::Location;

/// Maximum number of symbolic links that are followed for a path that does not exist.
const LINKS_MAX: usize = 40;

/// All forms of a location. Each form is a list of parts ([`Location::parts`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent(Vec<Vec<String>>);

impl Extent {
    /// Returns the extent of a location. Resolves symbolic links in the local file system.
    pub fn of(location: &Location) -> Self {
        let mut extent = Self::as_written(location);
        if location.is_local() {
            extent.add(parts_on_disk(&real_path(Path::new(&format!("/{}", location.path())))));
        }
        extent
    }

    /// Returns the extent of a location without access to the file system.
    pub(crate) fn as_written(location: &Location) -> Self {
        Self(location.spellings())
    }

    /// Returns the extent of a local file or directory.
    pub fn of_path(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut extent = Self(vec![parts_on_disk(&absolute)]);
        extent.add(parts_on_disk(&real_path(&absolute)));
        extent
    }

    /// Whether one of the two extents is equal to the other or within it, in any of their forms.
    pub fn overlaps(&self, other: &Self) -> bool {
        let overlap = |one: &[String], two: &[String]| one.starts_with(two) || two.starts_with(one);
        self.0.iter().any(|one| other.0.iter().any(|two| overlap(one, two)))
    }

    fn add(&mut self, parts: Vec<String>) {
        if !self.0.contains(&parts) {
            self.0.push(parts);
        }
    }
}

/// A location that is reserved for the catalog.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The setting with the location.
    pub setting: &'static str,
    /// Description of the location's content, such as `the catalog's own state`.
    pub what: &'static str,
    /// URL or path, for messages.
    pub url: String,
    /// Extent of the location.
    pub extent: Extent,
}

/// Locations that are reserved for the catalog: no warehouse, table or deletion may touch them.
#[derive(Debug, Clone, Default)]
pub struct Reserved(Arc<[Reservation]>);

impl Reserved {
    /// Adds a reservation.
    #[must_use]
    pub fn with(&self, reservation: Reservation) -> Self {
        Self(self.0.iter().cloned().chain([reservation]).collect())
    }

    /// Returns the first reservation that overlaps with `extent`.
    pub fn overlapping(&self, extent: &Extent) -> Option<&Reservation> {
        self.0.iter().find(|reservation| reservation.extent.overlaps(extent))
    }
}

/// Returns the parts of a local path, in the form of [`Location::parts`].
fn parts_on_disk(path: &Path) -> Vec<String> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    ["file".to_owned(), String::new()].into_iter().chain(names).collect()
}

/// Resolves the symbolic links of an absolute path, as far as the path exists.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    let mut missing = Vec::new();
    let mut links = 0;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return path.to_owned();
        };
        match at.read_link() {
            // A link to a path that does not exist.
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                at = parent.join(target);
            }
            _ => {
                missing.push(name.to_owned());
                at = parent.to_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use slateberg_model::warehouse::{Delegation, FileAccess};
    use uuid::Uuid;

    use super::*;
    use crate::open::open_url;
    use crate::vend::Vendor;
    use crate::warehouse_files::{Objects, Root};

    fn of(url: &str) -> Extent {
        Extent::of(&Location::parse(url).expect("it is valid"))
    }

    #[test]
    fn spellings_of_one_location_overlap() {
        for (one, two) in [
            ("s3://b/w", "s3a://b/w/state"),
            ("S3N://B/w/", "s3://b/w"),
            ("s3://key@b/w", "s3://b/w"),
            ("s3://b/a%2Db", "s3://b/a-b/c"),
            ("gs://b/w", "gcs://b/w"),
            ("abfss://c@one.dfs.core.windows.net/w", "wasbs://c@one.blob.core.windows.net/w/x"),
            ("az://c/w", "abfs://c@one.dfs.core.windows.net/w"),
            ("file:/no-such/w", "file:///no-such/w/x"),
            ("/no-such/w", "FILE:///no-such"),
        ] {
            assert!(of(one).overlaps(&of(two)) && of(two).overlaps(&of(one)), "{one} {two}");
        }
        for (one, two) in [
            ("s3://b/state", "s3://b/state-warehouse/lake"),
            ("s3://b/w", "gs://b/w"),
            ("file:///no-such/state", "file:///no-such/warehouse/default"),
        ] {
            assert!(!of(one).overlaps(&of(two)), "{one} {two}");
        }
    }

    #[test]
    fn symbolic_link_covers_its_target_even_if_missing() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().expect("there is room");
        let root = directory.path().canonicalize().expect("it exists");
        std::fs::create_dir(root.join("state")).expect("it can be created");
        symlink(root.join("state"), root.join("link")).expect("a link");
        symlink("later", root.join("dangling")).expect("a link");
        let at = |below: &str| of(&format!("file://{}/{below}", root.display()));
        assert!(at("link/x").overlaps(&at("state")));
        assert!(at("dangling/x").overlaps(&at("later")));
        assert!(!at("link").overlaps(&at("later")));
        assert!(Extent::of_path(&root.join("link")).overlaps(&at("state/manifest")));
    }

    #[test]
    fn reserved_location_has_no_vendor() {
        let url = "s3://lake/w";
        let options = [
            ("aws_region", "eu-central-1"),
            ("aws_access_key_id", "AKIDEXAMPLE"),
            ("aws_secret_access_key", "wJalrXUtnFEMI"),
        ];
        let options: BTreeMap<_, _> =
            options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let parse = |text: &str| Location::parse(text).expect("it is a location");
        let reserved = |what, url: &str| Reservation {
            setting: "state.url",
            what,
            url: url.to_owned(),
            extent: Extent::of(&parse(url)),
        };
        // This check is only a safeguard, because the server does not start if its state or log is
        // inside a warehouse.
        let reserved = Reserved::default()
            .with(reserved("the catalog's own state", "s3://lake/w/the-state"))
            .with(reserved("the log of the catalog's own state", "s3a://lake/w/x/log"));
        let id = Uuid::nil();
        for ways in [Delegation::VendedCredentials, Delegation::RemoteSigning] {
            let opened = open_url(url, &options).expect("it opens");
            let role_arn = Some("arn:aws:iam::123456789012:role/lake".to_owned());
            let access = FileAccess { delegation: vec![ways], role_arn, ..FileAccess::default() };
            let vendor = Vendor::open(&parse(url), &options, &access).expect("it opens");
            let root = Root {
                location: parse(url),
                object_store: opened.object_store,
                vendor: vendor.map(Arc::new),
            };
            let objects = Objects::new([(id, vec![root])]).reserving(reserved.clone());
            let has_vendor = |location: &str| objects.vendor(id, &parse(location)).is_some();
            assert!(has_vendor("s3://lake/w/ns/t") && has_vendor("s3://lake/w/the-state-2"));
            for location in [
                "s3://lake/w/the-state",
                "s3://lake/w/the-state/",
                "s3a://lake/w/the-state/manifest",
                "s3://lake/w/the%2Dstate/wal",
                "s3://lake/w/x/log/0001",
                "s3://lake/w/x",
            ] {
                assert!(!has_vendor(location), "{location} {ways:?}");
            }
        }
    }
}
