//! Registry of the key spaces. It defines which records each key space contains, and how operations
//! on whole stores treat these records.
//!
//! To add a kind of record, add a variant of [`KeySpace`]. The crate then compiles only if the
//! variant has [`Rules`] and a key type ([`visit`](super::key_visitor::visit)). The tests pass only
//! if there is an example of such a record. `fsck`, restore, clone, export, the cache, the
//! removal of old records and the deletion of files use these rules. None of them has its own list
//! of key spaces. The tables of keys in `docs/storage-layout.md` are generated from the registry.

mod access_table;
mod rules;
mod table;

pub use rules::{
    CacheRule, Check, CloneRule, Expiry, ExportRule, FileOwner, FilesRule, LineKind, Removal,
    ReplicaRule, RestoreRule, Rules,
};

/// Declares the enum together with the list of its variants, so that the list is always complete.
macro_rules! key_spaces {
    ($($(#[$doc:meta])* $name:ident = $byte:literal => $rules:expr,)+) => {
        /// A range of keys with one leading byte. All of its records are of one kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum KeySpace {
            $($(#[$doc])* $name = $byte,)+
        }

        impl KeySpace {
            /// Every key space, in the order of the keys.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the key space with this leading byte. `None` for an unknown byte.
            pub(crate) const fn of_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Returns the rules by which operations on whole stores treat the records.
            pub const fn rules(self) -> &'static Rules {
                match self {
                    $(Self::$name => &$rules,)+
                }
            }
        }
    };
}

key_spaces! {
    /// The store's own record.
    Store = 0x01 => table::STORE,
    /// Warehouses, by name.
    WarehouseNames = 0x10 => table::WAREHOUSE_NAMES,
    /// Names of namespaces below their parents.
    NamespaceNames = 0x20 => table::NAMESPACE_NAMES,
    /// Namespaces, by id.
    Namespaces = 0x21 => table::NAMESPACES,
    /// Names of tables in their namespaces.
    TableNames = 0x30 => table::TABLE_NAMES,
    /// Names of views in their namespaces.
    ViewNames = 0x31 => table::VIEW_NAMES,
    /// Tables and views, by id.
    Tabulars = 0x32 => table::TABULARS,
    /// Heads of the metadata of tables and views.
    Metadata = 0x33 => table::METADATA,
    /// Chunks of the metadata of tables and views.
    MetadataChunks = 0x34 => table::METADATA_CHUNKS,
    /// Locations of tables and views.
    Locations = 0x35 => table::LOCATIONS,
    /// UUIDs in the metadata of tables and views.
    Uuids = 0x36 => table::UUIDS,
    /// Dropped tables and views, by id.
    Dropped = 0x37 => table::DROPPED,
    /// Protections of warehouses and everything in them, by the id of the resource.
    Protections = 0x38 => table::PROTECTIONS,
    /// Functions, by their names in their namespaces.
    Functions = 0x39 => table::FUNCTIONS,
    /// Dropped namespaces, by id.
    DroppedNamespaces = 0x3a => table::DROPPED_NAMESPACES,
    /// Functions that were dropped with their namespaces, by their names in these namespaces.
    DroppedFunctions = 0x3b => table::DROPPED_FUNCTIONS,
    /// Metadata files that may be missing in the warehouse.
    Publications = 0x40 => table::PUBLICATIONS,
    /// Background jobs.
    Jobs = 0x41 => table::JOBS,
    /// Background jobs that have ended.
    EndedJobs = 0x42 => table::ENDED_JOBS,
    /// Files that rebases have left behind.
    Abandoned = 0x43 => table::ABANDONED,
    /// The use of tables and views.
    Usage = 0x46 => table::USAGE,
    /// The last scheduled searches for orphans.
    OrphanSearches = 0x47 => table::ORPHAN_SEARCHES,
    /// Labels of tables, views and their columns.
    Labels = 0x48 => table::LABELS,
    /// The newest metrics reports of tables.
    MetricsReports = 0x49 => table::METRICS_REPORTS,
    /// Outcomes of requests with an `Idempotency-Key`.
    Idempotency = 0x50 => table::IDEMPOTENCY,
    /// The change log.
    Changes = 0x60 => table::CHANGES,
    /// The number of the newest policy revision.
    PolicyHead = 0x70 => access_table::POLICY_HEAD,
    /// Revisions of policies and grants.
    PolicyLog = 0x71 => access_table::POLICY_LOG,
    /// Policies that were created at run time.
    Policies = 0x72 => access_table::POLICIES,
    /// Grants.
    Grants = 0x73 => access_table::GRANTS,
    /// API keys.
    ApiKeys = 0x80 => access_table::API_KEYS,
    /// Keys that sign slateberg's own tokens.
    SigningKeys = 0x81 => access_table::SIGNING_KEYS,
    /// API keys that were revoked.
    RevokedKeys = 0x82 => access_table::REVOKED_KEYS,
    /// Webhooks.
    Webhooks = 0x90 => access_table::WEBHOOKS,
    /// Positions of webhooks in the change feed.
    WebhookCursors = 0x91 => access_table::WEBHOOK_CURSORS,
    /// Positions of consumers of the change feed, by the name of the cursor.
    WatchCursors = 0x92 => access_table::WATCH_CURSORS,
}

impl KeySpace {
    /// Returns the leading byte of the keys.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the kinds of tables and views that protect their files ([`FilesRule::Keep`]).
    pub fn file_owners() -> impl Iterator<Item = FileOwner> {
        Self::ALL.iter().filter_map(|space| match space.rules().files {
            FilesRule::Keep(owner) => Some(owner),
            FilesRule::None | FilesRule::Index | FilesRule::Publish | FilesRule::Delete => None,
        })
    }

    /// Returns the key space of a key. Returns `None` if this binary does not know it.
    pub fn of(key: &[u8]) -> Option<Self> {
        key.first().copied().and_then(Self::of_byte)
    }
}

#[cfg(test)]
mod tests;
