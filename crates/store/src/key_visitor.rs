//! Maps key spaces to the types of their keys, so that generic code can handle all records.

use super::key_space::KeySpace;
use super::keys::{
    AbandonedKey, ApiKeyKey, ChangeKey, ChunkKey, DroppedFunctionKey, DroppedKey,
    DroppedNamespaceKey, EndedJobKey, FunctionKey, GrantKey, IdempotencyKey, JobKey, Key,
    LabelsKey, LocationKey, MetadataKey, MetricsReportsKey, NamespaceKey, NamespaceNameKey,
    OrphanSearchKey, PolicyHeadKey, PolicyKey, PolicyRevisionKey, ProtectionKey, PublicationKey,
    RevokedKeyKey, SigningKeyKey, StoreKey, TabularKey, TabularNameKey, UsageKey, UuidKey,
    WarehouseKey, WatchCursorKey, WebhookCursorKey, WebhookKey,
};

/// A computation that is generic over the type of a key.
pub trait KeyVisitor {
    /// Result of the computation.
    type Output;
    /// Computes the result for keys of this type.
    fn visit<K: Key>(self) -> Self::Output;
}

/// Runs a computation with the key type of a space.
pub fn visit<V: KeyVisitor>(space: KeySpace, visitor: V) -> V::Output {
    match space {
        KeySpace::Store => visitor.visit::<StoreKey>(),
        KeySpace::WarehouseNames => visitor.visit::<WarehouseKey>(),
        KeySpace::NamespaceNames => visitor.visit::<NamespaceNameKey>(),
        KeySpace::Namespaces => visitor.visit::<NamespaceKey>(),
        KeySpace::TableNames | KeySpace::ViewNames => visitor.visit::<TabularNameKey>(),
        KeySpace::Tabulars => visitor.visit::<TabularKey>(),
        KeySpace::Metadata => visitor.visit::<MetadataKey>(),
        KeySpace::MetadataChunks => visitor.visit::<ChunkKey>(),
        KeySpace::Locations => visitor.visit::<LocationKey>(),
        KeySpace::Uuids => visitor.visit::<UuidKey>(),
        KeySpace::Dropped => visitor.visit::<DroppedKey>(),
        KeySpace::Protections => visitor.visit::<ProtectionKey>(),
        KeySpace::Functions => visitor.visit::<FunctionKey>(),
        KeySpace::DroppedNamespaces => visitor.visit::<DroppedNamespaceKey>(),
        KeySpace::DroppedFunctions => visitor.visit::<DroppedFunctionKey>(),
        KeySpace::Publications => visitor.visit::<PublicationKey>(),
        KeySpace::Jobs => visitor.visit::<JobKey>(),
        KeySpace::EndedJobs => visitor.visit::<EndedJobKey>(),
        KeySpace::Abandoned => visitor.visit::<AbandonedKey>(),
        KeySpace::Usage => visitor.visit::<UsageKey>(),
        KeySpace::OrphanSearches => visitor.visit::<OrphanSearchKey>(),
        KeySpace::Labels => visitor.visit::<LabelsKey>(),
        KeySpace::MetricsReports => visitor.visit::<MetricsReportsKey>(),
        KeySpace::Idempotency => visitor.visit::<IdempotencyKey>(),
        KeySpace::Changes => visitor.visit::<ChangeKey>(),
        KeySpace::PolicyHead => visitor.visit::<PolicyHeadKey>(),
        KeySpace::PolicyLog => visitor.visit::<PolicyRevisionKey>(),
        KeySpace::Policies => visitor.visit::<PolicyKey>(),
        KeySpace::Grants => visitor.visit::<GrantKey>(),
        KeySpace::ApiKeys => visitor.visit::<ApiKeyKey>(),
        KeySpace::SigningKeys => visitor.visit::<SigningKeyKey>(),
        KeySpace::RevokedKeys => visitor.visit::<RevokedKeyKey>(),
        KeySpace::Webhooks => visitor.visit::<WebhookKey>(),
        KeySpace::WebhookCursors => visitor.visit::<WebhookCursorKey>(),
        KeySpace::WatchCursors => visitor.visit::<WatchCursorKey>(),
    }
}
