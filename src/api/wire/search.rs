//! Converts the results of searches to the form of responses.

use slateberg_catalog::search as catalog;
use slateberg_catalog::search::{MatchQuality, SearchSource as Source};
use slateberg_management::search::{
    SearchHit, SearchKind, SearchMatch, SearchResponse, SearchSource,
};

/// Returns a page of hits.
pub fn search_response(page: catalog::SearchPage) -> SearchResponse {
    SearchResponse {
        hits: page.hits.into_iter().map(hit).collect(),
        next_page_token: page.next,
        includes_latest_changes: page.is_current,
        incomplete: page.incomplete.into_iter().map(source).collect(),
    }
}

fn source(source: Source) -> SearchSource {
    match source {
        Source::Names => SearchSource::Names,
        Source::Columns => SearchSource::Columns,
        Source::Comments => SearchSource::Comments,
    }
}

fn hit(hit: catalog::SearchHit) -> SearchHit {
    let kind = match hit.kind {
        "namespace" => SearchKind::Namespace,
        "table" => SearchKind::Table,
        "view" => SearchKind::View,
        "function" => SearchKind::Function,
        other => SearchKind::Other(other.to_owned()),
    };
    let quality = match hit.quality {
        MatchQuality::Exact => SearchMatch::Exact,
        MatchQuality::Prefix => SearchMatch::Prefix,
        MatchQuality::Word => SearchMatch::Word,
        MatchQuality::Substring => SearchMatch::Substring,
    };
    SearchHit {
        resource: hit.resource,
        kind,
        warehouse: hit.warehouse,
        namespace: hit.namespace,
        name: hit.name,
        quality,
        matched_in: source(hit.source),
        column: hit.column,
        comment: hit.comment,
    }
}
