//! [`Search`]: finds tables, views, namespaces and functions by parts of their names, and by their
//! columns and comments.
//!
//! The names are in a [`NameIndex`] in memory. The first search builds the index from the store. The
//! first search for columns or comments adds these to the index, which needs the metadata of all
//! tables and views. A task keeps the index current with the change feed, and drops it when no
//! search has used it for some time. So a server without searches needs no memory for the index.
//!
//! A search finds every change that was durable when the search began: it first applies these
//! changes to the index. A search returns a name only if a listing of its namespace returns it to
//! the caller, and a column or comment only if the caller may load its table or view.

mod best;
mod bits;
mod block_names;
mod blocks;
mod build;
mod columns;
mod containers;
mod entries_by_id;
mod field_build;
mod field_index;
mod field_read;
mod fields;
mod keeper;
mod matches;
mod name_index;
mod name_list;
mod namespaces;
mod offsets;
#[cfg(test)]
mod oracle;
mod query;
mod scan;
mod terms;
#[cfg(test)]
mod tests;
mod texts;
mod varint;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

pub use self::best::SearchSource;
use self::best::{AfterMatch, Cursor, Match, MatchedField, SearchScope};
use self::containers::{Container, ContainerId};
use self::field_index::MissingTexts;
use self::keeper::{CurrentIndex, IndexKeeper};
use self::name_index::NameIndex;
use self::name_list::IdTail;
pub use self::query::MatchQuality;
use self::query::SearchQuery;
use super::admission::Admission;
use super::core::Core;
use super::error::Kind as ErrorKind;
use super::listings::{Contents, Listings};
use super::loadable::Loadable;
use super::lookup::{self, text_of};
use super::tabular::target::Target;
use super::version_cache::CachedVersion;
use super::{Error, Operation, Result};
use slateberg_authz::notation;
use slateberg_authz::resource::{Kind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::page::PageRequest;
use slateberg_model::warehouse::Warehouse;
use slateberg_telemetry::collection::Collection;

/// The kinds that a search finds.
const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Table, Kind::View, Kind::Function];

/// Number of concurrent scans of the index.
const SCANS_PARALLEL_MAX: usize = 2;
/// Number of hits of a page without a limit.
const HITS_MAX: usize = 1000;
/// Factor by which a search reads more matches after it has found hidden matches.
const GROWTH: usize = 4;

/// The search. Cheap to clone.
#[derive(Clone)]
pub struct Search {
    core: Arc<Core>,
    listings: Listings,
    keeper: Arc<IndexKeeper>,
    scans: Admission,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// The words to find.
    pub query: String,
    /// The warehouse to search. `None` for all warehouses that the caller may see.
    pub warehouse: Option<String>,
    /// The kinds to find: `namespace`, `table`, `view` or `function`. Empty for all kinds.
    pub kinds: Vec<String>,
    /// The texts to compare with the query: `names`, `columns` or `comments`. Empty for names.
    pub sources: Vec<String>,
    /// The page.
    pub page: PageRequest,
}

/// A found resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Its kind, such as `table`.
    pub kind: &'static str,
    /// The name of its warehouse.
    pub warehouse: String,
    /// The levels of the namespace that contains it.
    pub namespace: Vec<String>,
    /// Its name, or the last level of a namespace.
    pub name: String,
    /// The quality of the match of the name, column or comment.
    pub quality: MatchQuality,
    /// The kind of text that matches.
    pub source: SearchSource,
    /// The path of the column that matches, or whose comment matches.
    pub column: Option<String>,
    /// The beginning of the comment that matches.
    pub comment: Option<String>,
}

/// A page of hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPage {
    /// The hits, the best first. Equally good hits are ordered by name.
    pub hits: Vec<SearchHit>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
    /// Whether the search has considered all changes that were made before it. `false` if some of
    /// these changes did not become durable in time.
    pub is_current: bool,
    /// The searched sources of which the index lacks texts, because of its maximum size.
    pub incomplete: Vec<SearchSource>,
}

/// A match with its container.
struct PlacedMatch {
    found: Match,
    container: Container,
}

impl Search {
    pub(crate) fn new(core: &Arc<Core>, listings: &Listings) -> Self {
        Self {
            core: Arc::clone(core),
            listings: listings.clone(),
            keeper: Arc::new(IndexKeeper::new(core)),
            scans: Admission::new(SCANS_PARALLEL_MAX),
        }
    }

    /// Collects the size of the index.
    pub(crate) fn collect(&self, into: &mut Collection) {
        let Some((names, bytes)) = self.keeper.size() else { return };
        let help = "Names in the index of the search; 0 if there is no index";
        into.gauge("slateberg.search.index.names", "{name}", help, Vec::new(), names as f64);
        let help = "Memory of the index of the search";
        into.gauge("slateberg.search.index", "By", help, Vec::new(), bytes as f64);
    }

    /// Returns the resources that match a query, and which the caller may see.
    #[boxed]
    pub async fn search(
        &self,
        operation: &Operation,
        request: &SearchRequest,
    ) -> Result<SearchPage> {
        let query = Arc::new(SearchQuery::parse(&request.query)?);
        let kinds =
            request.kinds.iter().map(|kind| parse_kind(kind)).collect::<Result<Vec<_>>>()?;
        let mut sources =
            request.sources.iter().map(|name| parse_source(name)).collect::<Result<Vec<_>>>()?;
        if sources.is_empty() {
            sources.push(SearchSource::Names);
        }
        sources.sort_unstable();
        sources.dedup();
        let after = request.page.after.as_deref().map(parse_cursor).transpose()?;
        let warehouse = match &request.warehouse {
            None => None,
            Some(name) => match self.core.access.hidden_warehouse(operation, name) {
                Some(hidden) => return Err(hidden),
                None => Some(self.core.warehouses().by_prefix(Some(name))?.id),
            },
        };
        // The permissions are checked before the first search can cause work.
        let _ = self.core.access.ask(operation)?;
        let with_fields = sources != [SearchSource::Names];
        let CurrentIndex { names: index, is_current } = self.keeper.current(with_fields).await?;
        let limit = request.page.limit.unwrap_or(HITS_MAX).max(1);
        // One more hit than requested shows that there is another page.
        let wanted = limit.saturating_add(1);
        let mut scope = SearchScope { warehouse, kinds, sources, hidden: HashSet::new() };
        let incomplete = incomplete_sources(&index, &scope.sources);
        let (mut hits, mut cursor, mut count) = (Vec::new(), after.map(Arc::new), wanted);
        while hits.len() < wanted {
            let matches = self.best(&index, &query, &scope, cursor.clone(), count).await?;
            let is_last = matches.len() < count;
            if let Some(last) = matches.last() {
                cursor = AfterMatch::parse(cursor_of(last), &KINDS).map(Arc::new);
            }
            let shown = self.shown(operation, &matches, &mut scope.hidden).await?;
            let found = matches.into_iter().zip(shown);
            hits.extend(found.filter_map(|(found, hit)| Some((found, hit?))));
            if is_last {
                break;
            }
            count = count.saturating_mul(GROWTH);
        }
        let next =
            (hits.len() > limit).then(|| hits.get(limit - 1).map(|(last, _)| cursor_of(last)));
        let next = next.flatten().map(|cursor| serde_json::to_string(&cursor)).transpose();
        let next = next.map_err(Error::internal)?.map(|text| request.page.token(&text));
        hits.truncate(limit);
        let hits = hits.into_iter().map(|(_, hit)| hit).collect();
        Ok(SearchPage { hits, next, is_current, incomplete })
    }

    /// Scans the index on a thread for blocking work.
    async fn best(
        &self,
        index: &Arc<RwLock<NameIndex>>,
        query: &Arc<SearchQuery>,
        scope: &SearchScope,
        after: Option<Arc<AfterMatch>>,
        count: usize,
    ) -> Result<Vec<PlacedMatch>> {
        let busy = || {
            Error::unavailable(
                "Too many searches run at the same time. Retry later",
                "the scans of the index",
            )
        };
        let permit = self.scans.admit(busy).await?;
        let (index, query, scope) = (Arc::clone(index), Arc::clone(query), scope.clone());
        let scan = tokio::task::spawn_blocking(move || {
            let index = index.read().unwrap_or_else(PoisonError::into_inner);
            let found = index.best(&query, &scope, after.as_deref(), count).into_iter();
            let placed = found.filter_map(|found| {
                let container = index.containers().get(found.container)?.clone();
                Some(PlacedMatch { found, container })
            });
            let placed = placed.collect();
            drop(permit);
            placed
        });
        scan.await.map_err(Error::internal)
    }

    /// Returns the hit of each match that the caller may see. Adds contents to `hidden` of which the
    /// caller sees nothing.
    async fn shown(
        &self,
        operation: &Operation,
        matches: &[PlacedMatch],
        hidden: &mut HashSet<(ContainerId, Kind)>,
    ) -> Result<Vec<Option<SearchHit>>> {
        let mut groups: BTreeMap<(ContainerId, Kind), Vec<usize>> = BTreeMap::new();
        for (at, PlacedMatch { found, .. }) in matches.iter().enumerate() {
            groups.entry((found.container, found.kind)).or_default().push(at);
        }
        let mut hits: Vec<_> = matches.iter().map(|_| None).collect();
        let warehouses = self.core.warehouses();
        for (contents, members) in groups {
            let names: Vec<_> = members.iter().map(|at| &*matches[*at].found.name).collect();
            let container = &matches[members[0]].container;
            let Some(warehouse) = warehouses.by_id(container.warehouse) else {
                hidden.insert(contents);
                continue;
            };
            let ident = NamespaceIdent(container.levels.clone());
            let parent = Some(&ident).filter(|ident| !ident.is_root());
            let listed = Contents { parent, kind: contents.1 };
            let among = self.listings.listed_among(operation, &warehouse, listed, &names).await?;
            let Some(among) = among else {
                hidden.insert(contents);
                continue;
            };
            for (at, _) in members.into_iter().zip(among).filter(|(_, is_listed)| *is_listed) {
                let found = &matches[at].found;
                if self.may_read_field(operation, &warehouse, &ident, found).await? {
                    hits[at] = Some(hit(&warehouse, &ident, found));
                }
            }
        }
        Ok(hits)
    }

    /// Whether the caller may read the column or comment of a match, whose name the caller may see.
    /// A table or view that got the name after the index was updated is another object. The caller
    /// must be able to load the object whose metadata contains the column or comment.
    async fn may_read_field(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
        found: &Match,
    ) -> Result<bool> {
        let Some(MatchedField { id, .. }) = &found.field else { return Ok(true) };
        let store = self.core.store().durable();
        let kind = match found.kind {
            Kind::Table => TabularKind::Table,
            Kind::View => TabularKind::View,
            _ => {
                let mut ident = namespace.clone();
                ident.0.push(found.name.clone());
                let now = lookup::namespace_id(&store, warehouse.id, &ident).await?;
                return Ok(now.is_some_and(|now| IdTail::from(now) == *id));
            }
        };
        let ident = TabularIdent { namespace: namespace.clone(), name: found.name.clone() };
        let target = Target { warehouse, kind, ident: &ident };
        let loadable = self.core.access.loadable(&store, operation, target, false).await;
        let Some(Loadable { rules, record, .. }) = visible(loadable)? else { return Ok(false) };
        if IdTail::from(record.id) != *id {
            return Ok(false);
        }
        let Some(rules) = rules else { return Ok(true) };
        // A load fails if a column mask of the caller cannot be applied to the table.
        let Some(text) = text_of(&store, &record).await? else { return Ok(false) };
        let cached = CachedVersion { text, parsed: None };
        let restricted = self.core.restricted(&rules, &ident, (record.id, record.version), &cached);
        Ok(visible(restricted)?.is_some())
    }
}

/// Returns the sources of which an index lacks texts.
fn incomplete_sources(index: &RwLock<NameIndex>, sources: &[SearchSource]) -> Vec<SearchSource> {
    let index = index.read().unwrap_or_else(PoisonError::into_inner);
    let MissingTexts { columns, comments } = index.fields().missing();
    let lacks = |source: &SearchSource| match source {
        SearchSource::Names => false,
        SearchSource::Columns => columns,
        SearchSource::Comments => comments,
    };
    sources.iter().copied().filter(lacks).collect()
}

/// Returns `None` if a table or view does not exist, or if the caller may not load it.
fn visible<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(loaded) => Ok(Some(loaded)),
        Err(error) => match error.kind() {
            ErrorKind::NoSuchTable | ErrorKind::NoSuchView | ErrorKind::Forbidden => Ok(None),
            _ => Err(error),
        },
    }
}

fn hit(warehouse: &Warehouse, namespace: &NamespaceIdent, found: &Match) -> SearchHit {
    let inside = Resource::warehouse(&warehouse.name).namespace(namespace);
    let node = Node::named(&found.name);
    let resource = match found.kind {
        Kind::Table => inside.tabular(TabularKind::Table, node),
        Kind::View => inside.tabular(TabularKind::View, node),
        Kind::Function => inside.function(node),
        Kind::Catalog | Kind::Warehouse | Kind::Namespace => inside.level(node),
    };
    SearchHit {
        resource: notation::resource_text(&resource),
        kind: found.kind.as_str(),
        warehouse: warehouse.name.clone(),
        namespace: namespace.0.clone(),
        name: found.name.clone(),
        quality: found.rank.quality,
        source: found.rank.source,
        column: found.field.as_ref().and_then(|field| field.column.clone()),
        comment: found.field.as_ref().and_then(|field| field.comment.clone()),
    }
}

fn cursor_of(PlacedMatch { found, container }: &PlacedMatch) -> Cursor {
    Cursor {
        source: found.rank.source.as_str().to_owned(),
        quality: found.rank.quality.as_str().to_owned(),
        kind: found.kind.as_str().to_owned(),
        warehouse: container.warehouse,
        levels: container.levels.clone(),
        name: found.name.clone(),
    }
}

fn parse_cursor(text: &str) -> Result<AfterMatch> {
    let cursor = serde_json::from_str(text).ok();
    cursor.and_then(|cursor| AfterMatch::parse(cursor, &KINDS)).ok_or_else(|| {
        Error::Invalid(
            "Invalid page token: it does not belong to this search. Restart without a token"
                .to_owned(),
        )
    })
}

fn parse_source(name: &str) -> Result<SearchSource> {
    SearchSource::named(name).ok_or_else(|| {
        Error::Invalid(format!(
            "Invalid value of 'in': '{}'. Expected one of {}",
            brief(name),
            SearchSource::ALL.map(SearchSource::as_str).join(", ")
        ))
    })
}

fn parse_kind(name: &str) -> Result<Kind> {
    KINDS.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
        Error::Invalid(format!(
            "Invalid kind '{}'. Expected one of {}",
            brief(name),
            KINDS.map(Kind::as_str).join(", ")
        ))
    })
}
