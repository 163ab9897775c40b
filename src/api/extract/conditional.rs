//! The request header `If-None-Match`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};

use crate::api::etag::ETag;
use crate::api::state::ApiState;

/// The entity tags that the client holds.
pub struct IfNoneMatch(Vec<HeaderValue>);

impl FromRequestParts<ApiState> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect()))
    }
}

impl IfNoneMatch {
    /// Whether the request has this header.
    pub fn is_present(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether the client holds this representation. Accepts weak, quoted and bare tags, and lists
    /// of them.
    pub fn matches(&self, tag: &ETag) -> bool {
        self.0.iter().any(|value| value == tag.value() || list_contains(value, tag.bare()))
    }
}

fn list_contains(value: &HeaderValue, bare: &str) -> bool {
    value.to_str().is_ok_and(|tags| {
        tags.split(',')
            // Iceberg's client adds quotes to every tag that does not begin and end with a quote,
            // and therefore also to weak tags.
            .map(|tag| tag.trim().trim_start_matches('"').trim_start_matches("W/"))
            .map(|tag| tag.trim_matches('"'))
            .any(|tag| tag == bare || tag == "*")
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::api::etag::{Representation, SnapshotMode};
    use slateberg_catalog::ReadVersion;

    #[test]
    fn etag_matches_in_every_spelling() {
        let tag = |version| {
            let version = ReadVersion { id: Uuid::nil(), version, rules: None, labels: None };
            ETag::new(Representation {
                timeline: None,
                version,
                mode: SnapshotMode::All,
                planning: None,
            })
        };
        let bare = tag(1).bare().to_owned();
        let spellings = ["\"x\"", "x", "W/\"x\"", "\"W/\"x\"\"", "\"a\", \"x\"", "*"];
        for value in spellings.map(|spelling| spelling.replace('x', &bare)) {
            let header = HeaderValue::from_str(&value).expect("a header value");
            let condition = IfNoneMatch(vec![header]);
            assert!(condition.matches(&tag(1)), "{value}");
            assert!(value == "*" || !condition.matches(&tag(2)), "{value}");
        }
    }
}
