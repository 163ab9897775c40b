//! Opens object stores by URL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use super::cloud;
use super::local::LocalStore;
use super::option_names::{forbidden_http, meant, option};

/// An object store and a path in it.
#[derive(Clone)]
pub struct Opened {
    /// The bucket, or the local file system.
    pub object_store: Arc<dyn ObjectStore>,
    /// Path of the URL.
    pub path: Path,
    /// Whether the store can replace an object on the condition that it is unchanged (`If-Match`).
    pub conditional_update: bool,
    /// Local directory of the URL, if it has one.
    pub directory: Option<PathBuf>,
    /// Whether requests cross a network, so that some take much longer than others. Puts to such a
    /// store are [hedged](super::hedged).
    pub is_remote: bool,
}

/// Reason why a URL cannot be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot open {url}: {reason}{}", help.as_ref().map_or(String::new(), |it| format!(" ({it})")))]
pub struct OpenError {
    /// The URL.
    pub url: String,
    /// The reason.
    pub reason: String,
    /// The invalid option.
    pub option: Option<String>,
    /// Advice, if there is any.
    pub help: Option<String>,
}

impl OpenError {
    /// Error for a URL, with a reason.
    pub fn new(url: &str, reason: String) -> Self {
        Self { url: url.to_owned(), reason, option: None, help: None }
    }

    fn of_option(url: &str, option: &str, reason: String, help: Option<String>) -> Self {
        Self { option: Some(option.to_owned()), help, ..Self::new(url, reason) }
    }
}

/// A function that opens URLs. Tests replace it to inject faults.
pub type Opener =
    Arc<dyn Fn(&str, &BTreeMap<String, String>) -> Result<Opened, OpenError> + Send + Sync>;

/// Timeout of a request. With the library's default of 30 seconds, one lost response would delay
/// all waiting commits for too long.
const REQUEST_TIMEOUT: &str = "5 seconds";
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: &str = "2 seconds";

/// Opens `file://`, `memory://`, `s3://`, `gs://`, `az://` and their synonyms. `options` are those
/// of the `object_store` crate, such as `aws_endpoint` or `google_service_account`.
pub fn open_url(url: &str, options: &BTreeMap<String, String>) -> Result<Opened, OpenError> {
    let failed = |reason: String| OpenError::new(url, reason);
    if let Some(option) = forbidden_http(url, options) {
        let reason = format!("{option} begins with http://, which is not allowed by default");
        let help = "set aws_allow_http = \"true\", or use https://".replace("aws_", prefix(option));
        return Err(OpenError::of_option(url, option, reason, Some(help)));
    }
    let parsed = Url::parse(url).map_err(|error| failed(error.to_string()))?;
    if parsed.scheme() == "file" {
        let path = Path::parse(
            super::location::Location::parse(url)
                .map_err(|error| failed(error.to_string()))?
                .path(),
        )
        .map_err(|error| failed(error.to_string()))?;
        let object_store = Arc::new(LocalStore::new());
        let directory = Some(PathBuf::from(format!("/{path}")));
        let conditional_update = false;
        return Ok(Opened { object_store, path, conditional_update, directory, is_remote: false });
    }
    let defaults = [("timeout", REQUEST_TIMEOUT), ("connect_timeout", CONNECT_TIMEOUT)];
    let options = defaults
        .into_iter()
        .chain(options.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let bucket =
        cloud::open(&parsed, options.clone()).map_err(|error| failed(error.to_string()))?;
    let (object_store, path) = match bucket {
        Some(found) => found,
        None => {
            let (object_store, path) = object_store::parse_url_opts(&parsed, options)
                .map_err(|error| failed(error.to_string()))?;
            (Arc::from(object_store), path)
        }
    };
    let is_remote = parsed.scheme() != "memory";
    Ok(Opened { object_store, path, conditional_update: true, directory: None, is_remote })
}

/// Rejects options that do not exist for the URL's kind of store.
pub fn check_options(url: &str, options: &BTreeMap<String, String>) -> Result<(), OpenError> {
    match options.keys().find(|key| !is_known(url, key)) {
        None => Ok(()),
        Some(key) => {
            let reason = format!("unknown option '{key}' for this kind of store");
            let help = meant(url, key).map(|meant| format!("did you mean '{meant}'?"));
            Err(OpenError::of_option(url, key, reason, help))
        }
    }
}

/// Returns the options that exist for the URL's kind of store.
pub fn known_options(url: &str, options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = options.iter().filter(|(key, _)| is_known(url, key));
    known.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Merges options. An option in `over` replaces the same option in `base`, even if `base` uses
/// another name of the option.
pub fn laid_over(
    url: &str,
    base: BTreeMap<String, String>,
    over: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = base;
    all.retain(|key, _| !over.keys().any(|other| same_option(url, key, other)));
    all.extend(over.clone());
    all
}

/// Returns the prefix of the option names of a kind of store.
fn prefix(option: &str) -> &'static str {
    if option.starts_with("aws_") { "aws_" } else { "" }
}

/// Whether two names belong to one option.
fn same_option(url: &str, one: &str, other: &str) -> bool {
    match (option(url, one), option(url, other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn is_known(url: &str, key: &str) -> bool {
    option(url, key).is_some()
}

/// Returns the opener that servers use.
pub fn opener() -> Opener {
    Arc::new(open_url)
}
