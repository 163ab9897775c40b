//! [`ListingCache`]: cache for listings that policies filter.
//!
//! - The first kind of entry has the attributes of the names of a page. Without such an entry, the
//!   catalog would have to read names, records and metadata of up to a thousand tables. The
//!   attributes of a table are valid until its record is written again. The store detects such
//!   writes ([`ReadStamp`]). So a listing reads only the attributes of tables that were written
//!   since the previous listing.
//! - The second kind of entry has the names of a page that a principal may see. The key of such an
//!   entry contains everything that the decisions about the names depend on, except the names and
//!   their attributes. A change of the names or attributes invalidates the entry.
//!
//! An entry is valid as long as the store returns the same list of names for its page. The creation
//! or drop of a name on the page invalidates the entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use slateberg_authz::cache::PageKey;
use slateberg_authz::resource::Node;
use slateberg_model::page::Names;
use slateberg_store::key_space::KeySpace;
use slateberg_store::read::ReadStamp;
use slateberg_telemetry::cache::{ByteCache, CacheSize, CacheUsage};

/// Size of the node and the [`ReadStamp`] of one name, in bytes, without the name and its
/// attributes.
const READING_BYTES: usize = 128;
/// Size of an entry in bytes, without its names and its key.
const ENTRY_BYTES: usize = 512;
/// Typical size of an entry in bytes, for both caches.
const TYPICAL_BYTES: u64 = 64 << 10;

/// Start of a page of names: the key space, the parent, and the last name before the page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageStart {
    pub(super) space: KeySpace,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
}

impl PageStart {
    /// Returns its approximate size in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.after.as_ref().map_or(0, String::len)
    }
}

/// The names of a page with their attributes.
#[derive(Clone)]
pub(super) struct NamedAttributes {
    /// One node for each name, in the same order.
    pub(super) nodes: Arc<[Node]>,
    /// For each node, the stamp that detects later writes of its record.
    readings: Arc<[Option<ReadStamp>]>,
    /// The names as the store returned them.
    names: Arc<Names>,
    /// Unique number. If the attributes of the same page are read again, they get a different
    /// number.
    number: u64,
}

/// The names of a page that a principal sees.
#[derive(Clone)]
struct VisibleNames {
    /// All names of the page, as the store returned them.
    names: Arc<Names>,
    /// The number of the attributes that the filter used. `None` if it used no attributes.
    gathered: Option<u64>,
    /// The visible names.
    shown: Arc<Names>,
}

/// Cache of recently listed pages, limited in bytes.
pub(super) struct ListingCache {
    gathered: ByteCache<PageStart, NamedAttributes>,
    shown: ByteCache<(PageKey, PageStart), VisibleNames>,
    numbers: AtomicU64,
}

impl NamedAttributes {
    /// Returns the indexes of the nodes that must be read again. `stale_reads` returns the indexes
    /// of the outdated stamps.
    pub(super) fn stale(
        &self,
        stale_reads: impl FnOnce(&[Option<ReadStamp>]) -> Vec<usize>,
    ) -> Vec<usize> {
        stale_reads(&self.readings)
    }

    /// Returns copies of the nodes and of their stamps, which the caller updates.
    pub(super) fn to_parts(&self) -> (Vec<Node>, Vec<Option<ReadStamp>>) {
        (self.nodes.to_vec(), self.readings.to_vec())
    }
}

impl ListingCache {
    /// Creates a cache of at most `bytes_max` bytes, half of them for each kind of entry.
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes_max = bytes_max / 2;
        Self {
            gathered: ByteCache::new(bytes_max, TYPICAL_BYTES),
            shown: ByteCache::new(bytes_max, TYPICAL_BYTES),
            numbers: AtomicU64::new(0),
        }
    }

    /// Returns the cached attributes of a page that consists of these names.
    pub(super) fn attributes_of_names(
        &self,
        start: &PageStart,
        names: &Arc<Names>,
    ) -> Option<NamedAttributes> {
        self.gathered.peek(start).filter(|page| Arc::ptr_eq(&page.names, names))
    }

    /// Caches the attributes of a page.
    pub(super) fn insert_attributes(
        &self,
        start: PageStart,
        names: &Arc<Names>,
        (nodes, readings): (Vec<Node>, Vec<Option<ReadStamp>>),
    ) -> NamedAttributes {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let bytes: usize = nodes.iter().map(|node| READING_BYTES + node.bytes()).sum();
        let bytes = ENTRY_BYTES + start.bytes() + names.bytes() + bytes;
        let (names, nodes, readings) = (Arc::clone(names), nodes.into(), readings.into());
        let gathered = NamedAttributes { nodes, readings, names, number };
        self.gathered.insert(start, gathered.clone(), bytes);
        gathered
    }

    /// Returns the visible names of a page, if they were cached for these names and these
    /// attributes.
    pub(super) fn visible_names(
        &self,
        key: &(PageKey, PageStart),
        names: &Arc<Names>,
        gathered: Option<&NamedAttributes>,
    ) -> Option<Arc<Names>> {
        let number = gathered.map(|it| it.number);
        let is_same =
            |page: &VisibleNames| Arc::ptr_eq(&page.names, names) && page.gathered == number;
        self.shown.get_if(key, is_same).map(|page| page.shown)
    }

    /// Caches the visible names of a page.
    pub(super) fn insert_visible(
        &self,
        key: (PageKey, PageStart),
        names: &Arc<Names>,
        gathered: Option<&NamedAttributes>,
        shown: &Arc<Names>,
    ) {
        let (question, start) = &key;
        let key_bytes = question.bytes() + start.bytes();
        let bytes = ENTRY_BYTES + key_bytes + names.bytes() + shown.bytes();
        let (names, shown) = (Arc::clone(names), Arc::clone(shown));
        let shown = VisibleNames { names, gathered: gathered.map(|it| it.number), shown };
        self.shown.insert(key, shown, bytes);
    }

    /// Returns the memory use, and the hits and misses of the visible names.
    pub(super) fn usage(&self) -> CacheUsage {
        let (gathered, shown) = (self.gathered.size(), self.shown.usage());
        let size = CacheSize {
            bytes: gathered.bytes + shown.size.bytes,
            bytes_max: gathered.bytes_max + shown.size.bytes_max,
        };
        CacheUsage { size, ..shown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_authz::action::Load;
    use slateberg_authz::authority::{Authority, Decider};
    use slateberg_authz::context::Context;
    use slateberg_authz::policy_file::PolicyFile;
    use slateberg_authz::policy_set::PolicySet;
    use slateberg_authz::resource::{Attributes, Kind, Resource};
    use slateberg_authz::schema::Schema;
    use slateberg_model::ident::NamespaceIdent;
    use slateberg_model::principal::{Identity, Principal};

    const KIB: usize = 1 << 10;
    const BY_PROPERTIES: &str = "@id(\"open\") permit (principal, action == Action::\"Load\", \
                                 resource is Table) when { resource.hasTag(\"open\") };";

    fn attributes(bytes: usize) -> Arc<Attributes> {
        let properties = [("a".to_owned(), "x".repeat(bytes))].into();
        Arc::new(Attributes { properties, ..Attributes::default() })
    }

    /// Returns the cache key of a page in a namespace with a property of `property` bytes, for a
    /// principal with a role of `role` bytes.
    fn question(property: usize, role: usize) -> PageKey {
        let file = PolicyFile { name: "test.cedar".to_owned(), text: BY_PROPERTIES.to_owned() };
        let policies = PolicySet::build(Arc::new(Schema::bundled()), &[file], &[]);
        let authority = Authority::new(policies.expect("they are valid"), 10);
        let identity = Identity::embedded("ann").with_roles(["r".repeat(role)]);
        let (principal, context) = (Principal::Identified(Arc::new(identity)), Context::default());
        let Ok(Decider::Policies(asking)) = authority.ask(&principal, &context) else {
            panic!("an identified principal is subject to policies")
        };
        let inside = Resource::warehouse("w").namespace(&NamespaceIdent(vec!["n".to_owned()]));
        let inside = inside.with(attributes(property));
        asking.page_key::<Load>(&inside, Kind::Table).expect("no policy asks for the time")
    }

    fn start(after: usize) -> PageStart {
        let after = (after > 0).then(|| "x".repeat(after));
        PageStart { space: KeySpace::TableNames, parent: Uuid::nil(), after }
    }

    #[test]
    fn visible_names_depend_on_principal_and_container() {
        let weight = |property: usize, role: usize, after: usize| {
            let pages = ListingCache::new(1 << 20);
            let names = Arc::new(["t"].into_iter().collect::<Names>());
            let key = (question(property, role), start(after));
            pages.insert_visible(key, &names, None, &names);
            assert_eq!(pages.usage().size.bytes, pages.shown.size().bytes);
            pages.shown.size().bytes
        };
        let least = weight(1, 1, 1);
        assert!(least < 2 * KIB as u64, "{least}");
        let long = 8 * KIB;
        let further = (long - 1) as u64;
        assert_eq!(weight(long, 1, 1), least + further);
        assert_eq!(weight(1, long, 1), least + further);
        assert_eq!(weight(1, 1, long), least + further);
    }

    #[test]
    fn cached_attributes_depend_on_page_start_and_names() {
        let weight = |property: usize, name: usize, after: usize| {
            let pages = ListingCache::new(1 << 20);
            let name = "t".repeat(name);
            let names = Arc::new([name.as_str()].into_iter().collect::<Names>());
            let nodes = vec![Node::known(name, attributes(property))];
            pages.insert_attributes(start(after), &names, (nodes, vec![None]));
            pages.gathered.size().bytes
        };
        let least = weight(1, 1, 1);
        assert!(least < 2 * KIB as u64, "{least}");
        let long = 8 * KIB;
        let further = (long - 1) as u64;
        assert_eq!(weight(long, 1, 1), least + further);
        assert_eq!(weight(1, 1, long), least + further);
        // The name is stored twice: in the page, and in its node.
        assert!(weight(1, long, 1) > least + 2 * further - KIB as u64);
    }
}
