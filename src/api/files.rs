//! [`FilesTold`]: the file-access configuration of a table in the client's property names.
//!
//! It is the end of a `LoadTableResult`. Responses with it have no ETag and forbid caching: a `304`
//! would confirm credentials that are about to expire.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use slateberg_catalog::{Delegated, Way};
use slateberg_model::ident::TabularIdent;
use slateberg_model::separator;
use slateberg_model::warehouse::Warehouse;
use slateberg_telemetry::cache::ByteCache;

/// Bytes of the cache.
const KEPT_BYTES_MAX: u64 = 16 << 20;
/// Expected bytes of an entry, to size the cache.
const TYPICAL_BYTES: u64 = 4 << 10;

/// The digest of a configuration: the first half of its SHA-256.
pub type FilesKey = [u8; 16];

/// The file-access configuration of a table for a client.
#[derive(Debug, Clone)]
pub struct FilesTold {
    /// The end of the response.
    pub tail: Bytes,
    /// The digest of `tail`.
    pub key: FilesKey,
}

/// Cache of recent configurations, bounded in bytes. All callers with the same privileges get the
/// same one until its credentials are renewed, and rendering it takes longer than the rest of a
/// load.
pub struct FilesKept(ByteCache<KeptKey, Arc<Kept>>);

/// The table's id and the generation of its credentials.
type KeptKey = (Uuid, Option<u64>);

/// A configuration and its inputs.
struct Kept {
    told: Delegated,
    warehouse: String,
    ident: TabularIdent,
    files: FilesTold,
}

impl Default for FilesKept {
    fn default() -> Self {
        Self(ByteCache::new(KEPT_BYTES_MAX, TYPICAL_BYTES))
    }
}

impl FilesKept {
    /// Returns the configuration for the table with this name.
    pub fn told(&self, told: &Delegated, warehouse: &Warehouse, ident: &TabularIdent) -> FilesTold {
        let generation = match &told.way {
            Way::Credentials(credentials) => Some(credentials.generation),
            Way::Signatures | Way::Own => None,
        };
        let key = (told.id, generation);
        let same = |kept: &Arc<Kept>| {
            kept.told.is_same(told) && kept.ident == *ident && kept.warehouse == warehouse.name
        };
        if let Some(kept) = self.0.get_if(&key, same) {
            return kept.files.clone();
        }
        let files = FilesTold::new(told, warehouse, ident);
        let (told, warehouse, ident) = (told.clone(), warehouse.name.clone(), ident.clone());
        // The entry stores the credentials twice: as vended, and rendered for the client.
        let bytes = 2 * files.tail.len();
        self.0.insert(key, Arc::new(Kept { told, warehouse, ident, files: files.clone() }), bytes);
        files
    }
}

/// Credentials and the locations for which they are valid.
#[derive(Serialize)]
pub struct StorageCredential<'a> {
    /// The prefix of these locations.
    prefix: &'a str,
    /// The properties with the credentials.
    config: &'a BTreeMap<&'a str, &'a str>,
}

/// Escapes all characters except the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl FilesTold {
    /// Renders the configuration for the table with this name.
    pub fn new(told: &Delegated, warehouse: &Warehouse, ident: &TabularIdent) -> Self {
        let words = Words::new(told, warehouse, ident);
        let config = words.all();
        let mut tail = br#","config":"#.to_vec();
        serde_json::to_writer(&mut tail, &config).expect("text is JSON");
        if matches!(told.way, Way::Credentials(_)) {
            let credential = StorageCredential { prefix: &told.prefix, config: &config };
            tail.extend_from_slice(br#","storage-credentials":"#);
            serde_json::to_writer(&mut tail, &[credential]).expect("text is JSON");
        }
        tail.push(b'}');
        let hash = Sha256::digest(&tail);
        let key = hash.first_chunk().copied().expect("a SHA-256 has 32 bytes");
        Self { tail: tail.into(), key }
    }
}

/// The properties of a client's configuration.
pub struct Words<'a> {
    told: &'a Delegated,
    endpoint: String,
}

impl<'a> Words<'a> {
    /// Creates the properties for the table with this name.
    pub fn new(told: &'a Delegated, warehouse: &Warehouse, ident: &TabularIdent) -> Self {
        let table = table_path(warehouse, ident);
        let staged = told.staged.map(|name| format!("?staged={name}")).unwrap_or_default();
        let endpoint = match &told.way {
            Way::Credentials(_) => format!("{table}/credentials{staged}"),
            Way::Signatures => format!("{table}/sign{staged}"),
            Way::Own => String::new(),
        };
        Self { told, endpoint }
    }

    /// All properties. They can contain secrets.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let Self { told, endpoint } = self;
        let mut all: BTreeMap<&str, &str> =
            told.store.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match &told.way {
            Way::Own => {}
            Way::Credentials(credentials) => {
                let config = &credentials.vended.config;
                all.extend(config.iter().map(|(key, value)| (key.as_str(), value.reveal())));
                all.insert(told.refresh_key, endpoint);
            }
            Way::Signatures => all.extend([
                ("s3.remote-signing-enabled", "true"),
                // Iceberg's own clients read the first key, older ones the second.
                ("signer.endpoint", endpoint.as_str()),
                ("s3.signer.endpoint", endpoint.as_str()),
                // PyIceberg's preferred `FileIO` cannot use a remote signer. Its fsspec one can.
                ("s3.signer", "S3V4RestSigner"),
                ("py-io-impl", "pyiceberg.io.fsspec.FsspecFileIO"),
            ]),
        }
        all
    }
}

/// The body of `GET .../credentials`.
pub fn credentials_body(
    told: Option<&Delegated>,
    warehouse: &Warehouse,
    ident: &TabularIdent,
) -> Vec<u8> {
    let words = told.map(|told| (told, Words::new(told, warehouse, ident)));
    let found = words.as_ref().filter(|(told, _)| matches!(told.way, Way::Credentials(_)));
    let config = found.map(|(told, words)| (told.prefix.as_str(), words.all()));
    let all: Vec<_> =
        config.iter().map(|(prefix, config)| StorageCredential { prefix, config }).collect();
    let mut body = br#"{"storage-credentials":"#.to_vec();
    serde_json::to_writer(&mut body, &all).expect("text is JSON");
    body.push(b'}');
    body
}

/// The path of a table, relative to the catalog's URI.
fn table_path(warehouse: &Warehouse, ident: &TabularIdent) -> String {
    let encode = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    let namespace = ident.namespace.0.join(&separator::DEFAULT.to_string());
    let (namespace, name) = (encode(&namespace), encode(&ident.name));
    format!("v1/{}/namespaces/{namespace}/tables/{name}", encode(&warehouse.name))
}
