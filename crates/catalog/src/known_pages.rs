//! [`KnownPages`]: what was worked out for listings that policies filter, kept from one listing to the next.
//!
//! - What policies can ask of the names of a page. To gather it takes a name, a record and the metadata for
//!   each of a thousand tables. What was gathered of one holds until its record is written, which the store
//!   can tell ([`Reading`]); so a listing reads those anew that were written since the last one, and no
//!   others.
//! - Which of the names somebody is shown: by everything that this depends on, as with single decisions.
//!
//! Names that come and go make another page: a page is the same as long as the store serves the same names
//! for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use slateberg_authz::cache::PageKey;
use slateberg_authz::resource::Node;
use slateberg_model::page::Names;
use slateberg_store::read::Reading;
use slateberg_telemetry::cache::{ByteCache, CacheSize, CacheUsage};

/// Bytes that a name takes beside its attributes: until when they hold.
const READING_BYTES: usize = 128;
/// Bytes that an entry takes beside its names and its key.
const ENTRY_BYTES: usize = 512;
/// Bytes of an entry of either kind, as the caches expect it.
const TYPICAL_BYTES: u64 = 64 << 10;

/// Where a page of names begins: of what, below which parent, and behind which name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageStart {
    pub(super) space: u8,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
}

impl PageStart {
    /// The bytes that it takes, about.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.after.as_ref().map_or(0, String::len)
    }
}

/// The names of a page with what policies can ask of them.
#[derive(Clone)]
pub(super) struct Gathered {
    /// What the names stand for, in their order.
    pub(super) nodes: Arc<[Node]>,
    /// For each of them, how to find out whether its record was written since.
    readings: Arc<[Option<Reading>]>,
    /// The names as the store has served them.
    names: Arc<Names>,
    /// Tells it from what is gathered at another time.
    number: u64,
}

/// Which names of a page somebody is shown.
#[derive(Clone)]
struct Shown {
    /// All names of it, as the store has served them.
    names: Arc<Names>,
    /// The number of what was gathered of them, if anything was asked of that.
    gathered: Option<u64>,
    /// Those that are shown.
    shown: Arc<Names>,
}

/// Pages that were listed lately, bounded in bytes.
pub(super) struct KnownPages {
    gathered: ByteCache<PageStart, Gathered>,
    shown: ByteCache<(PageKey, PageStart), Shown>,
    numbers: AtomicU64,
}

impl Gathered {
    /// Those that have to be read again, by their places, if `overtaken` says which reads no longer hold.
    pub(super) fn stale(
        &self,
        overtaken: impl FnOnce(&[Option<Reading>]) -> Vec<usize>,
    ) -> Vec<usize> {
        overtaken(&self.readings)
    }

    /// The parts of it, to be changed.
    pub(super) fn to_parts(&self) -> (Vec<Node>, Vec<Option<Reading>>) {
        (self.nodes.to_vec(), self.readings.to_vec())
    }
}

impl KnownPages {
    /// Keeps at most so many bytes: half of them of either kind.
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes_max = bytes_max / 2;
        Self {
            gathered: ByteCache::new(bytes_max, TYPICAL_BYTES),
            shown: ByteCache::new(bytes_max, TYPICAL_BYTES),
            numbers: AtomicU64::new(0),
        }
    }

    /// What was gathered of a page that shows these names.
    pub(super) fn gathered(&self, start: &PageStart, names: &Arc<Names>) -> Option<Gathered> {
        self.gathered.peek(start).filter(|page| Arc::ptr_eq(&page.names, names))
    }

    /// Keeps what was gathered of a page.
    pub(super) fn keep_gathered(
        &self,
        start: PageStart,
        names: &Arc<Names>,
        (nodes, readings): (Vec<Node>, Vec<Option<Reading>>),
    ) -> Gathered {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let bytes: usize = nodes.iter().map(|node| READING_BYTES + node.bytes()).sum();
        let bytes = ENTRY_BYTES + start.bytes() + names.bytes() + bytes;
        let (names, nodes, readings) = (Arc::clone(names), nodes.into(), readings.into());
        let gathered = Gathered { nodes, readings, names, number };
        self.gathered.insert(start, gathered.clone(), bytes);
        gathered
    }

    /// Which names of a page somebody is shown, if that is known of these names and of what was gathered of
    /// them.
    pub(super) fn shown(
        &self,
        key: &(PageKey, PageStart),
        names: &Arc<Names>,
        gathered: Option<&Gathered>,
    ) -> Option<Arc<Names>> {
        let number = gathered.map(|it| it.number);
        let is_same = |page: &Shown| Arc::ptr_eq(&page.names, names) && page.gathered == number;
        self.shown.get_if(key, is_same).map(|page| page.shown)
    }

    /// Keeps which names of a page somebody is shown.
    pub(super) fn keep_shown(
        &self,
        key: (PageKey, PageStart),
        names: &Arc<Names>,
        gathered: Option<&Gathered>,
        shown: &Arc<Names>,
    ) {
        let (question, start) = &key;
        let asked = question.bytes() + start.bytes();
        let bytes = ENTRY_BYTES + asked + names.bytes() + shown.bytes();
        let (names, shown) = (Arc::clone(names), Arc::clone(shown));
        let shown = Shown { names, gathered: gathered.map(|it| it.number), shown };
        self.shown.insert(key, shown, bytes);
    }

    /// How it is used.
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
    use slateberg_authz::authority::{Asked, Authority};
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

    /// What the answer for a page depends on in a namespace with a property of so many bytes, and what
    /// somebody with a role of so many bytes is.
    fn question(property: usize, role: usize) -> PageKey {
        let file = PolicyFile { name: "test.cedar".to_owned(), text: BY_PROPERTIES.to_owned() };
        let policies = PolicySet::build(Arc::new(Schema::bundled()), &[file], &[]);
        let authority = Authority::new(policies.expect("they are valid"), 10);
        let identity = Identity::embedded("ann").with_roles(["r".repeat(role)]);
        let (principal, context) = (Principal::Identified(Arc::new(identity)), Context::default());
        let Ok(Asked::Policies(asking)) = authority.ask(&principal, &context) else {
            panic!("policies are asked of whoever is known")
        };
        let inside = Resource::warehouse("w").namespace(&NamespaceIdent(vec!["n".to_owned()]));
        let inside = inside.with(attributes(property));
        asking.page_key::<Load>(&inside, Kind::Table).expect("no policy asks for the time")
    }

    fn start(after: usize) -> PageStart {
        let after = (after > 0).then(|| "x".repeat(after));
        PageStart { space: 1, parent: Uuid::nil(), after }
    }

    #[test]
    fn who_asks_where_counts_for_what_somebody_is_shown() {
        let weight = |property: usize, role: usize, after: usize| {
            let pages = KnownPages::new(1 << 20);
            let names = Arc::new(["t"].into_iter().collect::<Names>());
            let key = (question(property, role), start(after));
            pages.keep_shown(key, &names, None, &names);
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
    fn where_a_page_begins_and_what_is_known_counts_for_what_was_gathered() {
        let weight = |property: usize, name: usize, after: usize| {
            let pages = KnownPages::new(1 << 20);
            let name = "t".repeat(name);
            let names = Arc::new([name.as_str()].into_iter().collect::<Names>());
            let nodes = vec![Node::known(name, attributes(property))];
            pages.keep_gathered(start(after), &names, (nodes, vec![None]));
            pages.gathered.size().bytes
        };
        let least = weight(1, 1, 1);
        assert!(least < 2 * KIB as u64, "{least}");
        let long = 8 * KIB;
        let further = (long - 1) as u64;
        assert_eq!(weight(long, 1, 1), least + further);
        assert_eq!(weight(1, 1, long), least + further);
        // It stands in the page, and in what is known of it.
        assert!(weight(1, long, 1) > least + 2 * further - KIB as u64);
    }
}
