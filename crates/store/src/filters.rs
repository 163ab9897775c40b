//! The filters of sorted runs and of files of level 0. With them, a read skips the files that cannot
//! contain its keys.

use std::ops::Bound;
use std::sync::Arc;

use slatedb::config::ScanOptions;
use slatedb::{
    BloomFilterPolicy, DbIterator, DbReadOps, FilterPolicy, PrefixExtractor, PrefixTarget,
};

use super::error::Error;
use super::key_range::KeyRange;
use super::keys::parent_of_name;

/// Bits per key of a filter. With SlateDB's default of 10, one in a hundred lookups of a missing
/// name reads a block unnecessarily. This applies to each run, and there are up to a dozen runs.
const BITS_PER_KEY: u32 = 14;

/// Returns the filters of each file: one of its keys, and one of the parents of its names. The
/// filter of keys is the one of earlier versions, so files of these versions keep their filters.
pub(super) fn policies() -> Vec<Arc<dyn FilterPolicy>> {
    let parents = BloomFilterPolicy::new(BITS_PER_KEY)
        .with_prefix_extractor(Arc::new(Parents))
        .with_whole_key_filtering(false);
    vec![Arc::new(BloomFilterPolicy::new(BITS_PER_KEY)), Arc::new(parents)]
}

/// The part of a name's key that is common to all names below one parent.
struct Parents;

impl PrefixExtractor for Parents {
    /// The name is part of each file. It must change if the keys that have a parent change.
    fn name(&self) -> &'static str {
        "parents"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        parent_of_name(bytes).map(<[u8]>::len)
    }
}

/// Iterates over a range. If the range is within the names below one parent, skips the files
/// without such names.
pub(super) async fn scan<D: DbReadOps + Sync>(
    db: &D,
    range: &KeyRange,
    options: &ScanOptions,
) -> Result<DbIterator, Error> {
    let scan = match (parent_of_name(&range.prefix), range.start_after_prefix()) {
        (Some(_), Some(start)) => {
            db.scan_prefix_with_options(&range.prefix, (start, Bound::Unbounded), options).await
        }
        // SlateDB would read the filters of all files, although they know nothing about the range.
        _ => db.scan_with_options(range.bounds(), options).await,
    };
    Ok(scan?)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::Store;
    use crate::key_space::KeySpace;
    use crate::keys::NamespaceNameKey;
    use crate::read::StoreRead;
    use crate::records::NameEntry;
    use crate::test_support::{in_memory, open, permit};
    use slateberg_telemetry::collection::Collection;
    use slateberg_telemetry::prometheus::render;

    /// Number of names below each parent. Files with fewer keys have no filters.
    const NAMES: usize = 20;

    fn below(parent: u128) -> KeyRange {
        KeyRange::below(KeySpace::NamespaceNames, Uuid::from_u128(parent))
    }

    /// Writes a file of level 0 with names below these parents.
    async fn write_file(store: &Store, parents: &[u128]) {
        let permit = permit();
        let written = store.transact("names", &permit, |t| async move {
            for (parent, name) in
                parents.iter().flat_map(|parent| (0..NAMES).map(move |name| (parent, name)))
            {
                let parent = Uuid::from_u128(*parent);
                let key = NamespaceNameKey { parent, name: name.to_string() };
                t.put(&key, &NameEntry { id: Uuid::nil() })?;
            }
            Ok::<_, Error>(())
        });
        written.await.expect("it is accepted").1.durable().await.expect("it is durable");
        store.flush().await.expect("it is flushed");
    }

    /// Returns how many files scans of names have skipped.
    fn skipped(store: &Store) -> String {
        let mut metrics = Collection::default();
        store.collect(&mut metrics);
        let text = render(&metrics);
        let line = text.lines().find(|line| {
            line.starts_with("slatedb_db_sst_filter_negative_count") && line.contains("prefix")
        });
        line.expect("the metric exists").rsplit(' ').next().expect("a value").to_owned()
    }

    #[test]
    fn filter_of_parents_keeps_its_name_only_with_these_key_spaces() {
        let has_parents = |space: &&KeySpace| {
            parent_of_name(&KeyRange::below(**space, Uuid::nil()).prefix).is_some()
        };
        let spaces: Vec<_> = KeySpace::ALL.iter().filter(has_parents).copied().collect();
        let known = [
            KeySpace::NamespaceNames,
            KeySpace::TableNames,
            KeySpace::ViewNames,
            KeySpace::Functions,
        ];
        assert_eq!(spaces, known, "filters in existing files know no others: rename the filter");
    }

    #[tokio::test]
    async fn scan_of_names_skips_files_without_names_of_the_parent() {
        let store = open(&in_memory()).await;
        // The keys of both files enclose those of the parents 2 and 3.
        write_file(&store, &[1, 4]).await;
        write_file(&store, &[1, 3, 4]).await;
        assert!(!store.latest().any(&below(2)).await.expect("it is readable"));
        assert_eq!(skipped(&store), "2");
        let found = store.latest().scan::<NamespaceNameKey>(&below(3), None).await;
        assert_eq!(found.expect("it is readable").len(), NAMES);
        assert_eq!(skipped(&store), "3");
    }
}
