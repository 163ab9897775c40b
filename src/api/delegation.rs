//! [`DelegationConfig`]: the file-access configuration of a table, with the property names that
//! clients expect.
//!
//! The configuration forms the end of a `LoadTableResult`. Responses that contain it have no ETag
//! and forbid caching: a `304` would confirm credentials that are about to expire.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use slateberg_catalog::{AccessMode, DelegatedAccess};
use slateberg_config::server::Settings;
use slateberg_model::ident::TabularIdent;
use slateberg_model::separator;
use slateberg_model::warehouse::Warehouse;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Expected bytes of an entry, to size the cache.
const TYPICAL_BYTES: u64 = 4 << 10;

/// The digest of a configuration: the first half of its SHA-256.
pub type ConfigDigest = [u8; 16];

/// The file-access configuration of a table for a client.
#[derive(Debug, Clone)]
pub struct DelegationConfig {
    /// The end of the response's JSON, which contains the configuration.
    pub tail: Bytes,
    /// The digest of `tail`.
    pub key: ConfigDigest,
}

/// Cache of recent configurations, bounded in bytes. The cache is useful for two reasons. All
/// principals with the same privileges get the same configuration until its credentials are
/// renewed. And rendering a configuration takes longer than the rest of a load.
pub struct DelegationCache(ByteCache<CacheKey, Arc<CacheEntry>>);

/// The table's id and the generation of its credentials.
type CacheKey = (Uuid, Option<u64>);

/// A configuration and its inputs.
struct CacheEntry {
    delegated: DelegatedAccess,
    warehouse: String,
    ident: TabularIdent,
    files: DelegationConfig,
}

impl DelegationCache {
    /// Creates an empty cache within the bounds of these settings.
    pub fn new(settings: &Settings) -> Self {
        Self(ByteCache::new(settings.delegation_cache_bytes(), TYPICAL_BYTES))
    }

    /// Statistics of the cache.
    pub fn usage(&self) -> CacheUsage {
        self.0.usage()
    }

    /// Returns the configuration for the table with this name.
    pub fn config_for(
        &self,
        delegated: &DelegatedAccess,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> DelegationConfig {
        let generation = match &delegated.mode {
            AccessMode::Credentials(credentials) => Some(credentials.generation),
            AccessMode::Signatures | AccessMode::Own => None,
        };
        let key = (delegated.id, generation);
        let is_same = |entry: &Arc<CacheEntry>| {
            entry.delegated.is_same(delegated)
                && entry.ident == *ident
                && entry.warehouse == warehouse.name
        };
        if let Some(entry) = self.0.get_if(&key, is_same) {
            return entry.files.clone();
        }
        let files = DelegationConfig::new(delegated, warehouse, ident);
        let (delegated, warehouse, ident) =
            (delegated.clone(), warehouse.name.clone(), ident.clone());
        // The entry stores the credentials twice: as vended, and rendered for the client.
        let bytes = 2 * files.tail.len();
        self.0.insert(
            key,
            Arc::new(CacheEntry { delegated, warehouse, ident, files: files.clone() }),
            bytes,
        );
        files
    }
}

/// Credentials and the locations for which they are valid.
#[derive(Serialize)]
pub struct StorageCredential<'a> {
    /// The prefix of all locations for which the credentials are valid.
    prefix: &'a str,
    /// The properties with the credentials.
    config: &'a BTreeMap<&'a str, &'a str>,
}

/// The member `remote-signing-config`. Newer clients sign if the member is present, and older ones
/// if `config` contains `s3.remote-signing-enabled`.
#[derive(Serialize)]
struct RemoteSigningConfig {
    /// Properties that clients return in each request for a signature.
    properties: BTreeMap<&'static str, String>,
    /// Headers that clients send with each request for a signature.
    headers: BTreeMap<String, Vec<String>>,
}

/// The property of [`RemoteSigningConfig`] with the id of a staged table.
pub const STAGED_PROPERTY: &str = "slateberg.staged";

/// Escapes all characters except the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl DelegationConfig {
    /// Renders the configuration for the table with this name.
    pub fn new(delegated: &DelegatedAccess, warehouse: &Warehouse, ident: &TabularIdent) -> Self {
        let properties = ClientProperties::new(delegated, warehouse, ident);
        let config = properties.all();
        let mut tail = br#","config":"#.to_vec();
        serde_json::to_writer(&mut tail, &config).expect("text is JSON");
        if matches!(delegated.mode, AccessMode::Credentials(_)) {
            let credential = StorageCredential { prefix: &delegated.prefix, config: &config };
            tail.extend_from_slice(br#","storage-credentials":"#);
            serde_json::to_writer(&mut tail, &[credential]).expect("text is JSON");
        }
        if matches!(delegated.mode, AccessMode::Signatures) {
            let staged = delegated.staged.map(|name| (STAGED_PROPERTY, name.to_string()));
            let signing = RemoteSigningConfig {
                properties: staged.into_iter().collect(),
                headers: BTreeMap::new(),
            };
            tail.extend_from_slice(br#","remote-signing-config":"#);
            serde_json::to_writer(&mut tail, &signing).expect("text is JSON");
        }
        tail.push(b'}');
        let hash = Sha256::digest(&tail);
        let key = hash.first_chunk().copied().expect("a SHA-256 has 32 bytes");
        Self { tail: tail.into(), key }
    }
}

/// The properties of a client's configuration.
pub struct ClientProperties<'a> {
    delegated: &'a DelegatedAccess,
    endpoint: String,
}

impl<'a> ClientProperties<'a> {
    /// Creates the properties for the table with this name.
    pub fn new(
        delegated: &'a DelegatedAccess,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Self {
        let table = table_path(warehouse, ident);
        let staged = delegated.staged.map(|name| format!("?staged={name}")).unwrap_or_default();
        let endpoint = match &delegated.mode {
            AccessMode::Credentials(_) => format!("{table}/credentials{staged}"),
            AccessMode::Signatures => format!("{table}/sign{staged}"),
            AccessMode::Own => String::new(),
        };
        Self { delegated, endpoint }
    }

    /// Returns all properties. They can contain secrets.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let Self { delegated, endpoint } = self;
        let mut all: BTreeMap<&str, &str> =
            delegated.store.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match &delegated.mode {
            AccessMode::Own => {}
            AccessMode::Credentials(credentials) => {
                let config = &credentials.vended.config;
                all.extend(config.iter().map(|(key, value)| (key.as_str(), value.reveal())));
                all.insert(delegated.refresh_key, endpoint);
            }
            AccessMode::Signatures => all.extend([
                ("s3.remote-signing-enabled", "true"),
                // Iceberg's own clients read the first of these two keys, older clients the second.
                ("signer.endpoint", endpoint.as_str()),
                ("s3.signer.endpoint", endpoint.as_str()),
                // PyIceberg's preferred `FileIO` cannot use a remote signer, but its `FsspecFileIO`
                // can.
                ("s3.signer", "S3V4RestSigner"),
                ("py-io-impl", "pyiceberg.io.fsspec.FsspecFileIO"),
            ]),
        }
        all
    }
}

/// The body of `GET .../credentials`.
pub fn credentials_body(
    delegated: Option<&DelegatedAccess>,
    warehouse: &Warehouse,
    ident: &TabularIdent,
) -> Vec<u8> {
    let all = storage_credentials(delegated, warehouse, ident);
    let mut body = br#"{"storage-credentials":"#.to_vec();
    body.extend(all.as_deref().unwrap_or(b"[]"));
    body.push(b'}');
    body
}

/// The value of the member `storage-credentials`: the vended credentials and all other properties
/// of the object store. `None` if the client gets no credentials.
pub fn storage_credentials(
    delegated: Option<&DelegatedAccess>,
    warehouse: &Warehouse,
    ident: &TabularIdent,
) -> Option<Vec<u8>> {
    let is_vended = |it: &&DelegatedAccess| matches!(it.mode, AccessMode::Credentials(_));
    let delegated = delegated.filter(is_vended)?;
    let properties = ClientProperties::new(delegated, warehouse, ident);
    let credential = StorageCredential { prefix: &delegated.prefix, config: &properties.all() };
    Some(serde_json::to_vec(&[credential]).expect("text is JSON"))
}

/// The path of a table, relative to the catalog's URI.
fn table_path(warehouse: &Warehouse, ident: &TabularIdent) -> String {
    let encode = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    let namespace = ident.namespace.0.join(&separator::DEFAULT.to_string());
    let (namespace, name) = (encode(&namespace), encode(&ident.name));
    format!("v1/{}/namespaces/{namespace}/tables/{name}", encode(&warehouse.name))
}
