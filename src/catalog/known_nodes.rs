//! [`KnownNodes`]: what policies can ask of the names of a page, kept from one listing to the next.
//!
//! To gather it takes a name, a record and the metadata for each of a thousand tables. What was gathered
//! of one holds until its record is written, which the store can tell ([`Reading`]); so a listing reads
//! those anew that were written since the last one, and no others. Names that come and go make another
//! page: a page is the same as long as the store serves the same names for it.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use uuid::Uuid;

use crate::authz::resource::{Attributes, Node};
use crate::model::page::Names;
use crate::store::read::Reading;
use crate::telemetry::cache::{CacheRequests, CacheUsage};

/// Bytes that a name takes beside its attributes' texts.
const NODE_BYTES: usize = 256;
/// Bytes that a property takes beside its texts.
const PROPERTY_BYTES: usize = 64;
/// Bytes of a page, as the cache expects it.
const TYPICAL_BYTES: u64 = 512 << 10;

/// Where a page of names begins: of what, below which parent, and behind which name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageStart {
    pub(super) space: u8,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
}

/// The names of a page with what policies can ask of them.
#[derive(Clone)]
pub(super) struct KnownPage {
    /// The names as the store has served them.
    pub(super) names: Arc<Names>,
    /// What they stand for, in their order.
    pub(super) nodes: Arc<[Node]>,
    /// For each of them, how to find out whether its record was written since.
    pub(super) readings: Arc<[Option<Reading>]>,
}

/// Pages that were listed lately, bounded in bytes.
pub(super) struct KnownNodes {
    pages: Cache<PageStart, (KnownPage, u64), Weight>,
    requests: CacheRequests,
}

#[derive(Clone)]
struct Weight;

impl Weighter<PageStart, (KnownPage, u64)> for Weight {
    fn weight(&self, _start: &PageStart, (_, bytes): &(KnownPage, u64)) -> u64 {
        *bytes
    }
}

impl KnownNodes {
    /// Keeps at most so many bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        let pages = usize::try_from(bytes_max / TYPICAL_BYTES).unwrap_or(usize::MAX);
        let pages = Cache::with_weighter(pages.max(16), bytes_max, Weight);
        Self { pages, requests: CacheRequests::default() }
    }

    /// What is known of a page that shows these names.
    pub(super) fn get(&self, start: &PageStart, names: &Arc<Names>) -> Option<KnownPage> {
        let found = self.pages.get(start).map(|(page, _)| page);
        let found = found.filter(|page| Arc::ptr_eq(&page.names, names));
        self.requests.count(found.is_some());
        found
    }

    /// Keeps what was gathered of a page.
    pub(super) fn keep(&self, start: PageStart, page: KnownPage) {
        let bytes: usize = page.nodes.iter().map(node_bytes).sum();
        let bytes = (page.names.bytes() + bytes) as u64;
        self.pages.insert(start, (page, bytes));
    }

    /// How it is used.
    pub(super) fn usage(&self) -> CacheUsage {
        self.requests.usage(self.pages.weight())
    }
}

fn node_bytes(node: &Node) -> usize {
    let Attributes { properties, location, owner } = node.attributes();
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let properties = properties.iter();
    let properties = properties.map(|(key, value)| key.len() + value.len() + PROPERTY_BYTES);
    NODE_BYTES + text(location) + text(owner) + properties.sum::<usize>()
}
