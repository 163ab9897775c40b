//! [`Repeatability`]: whether a forwarded request may be sent again if its response is lost.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use slateberg_base::ids::Ids;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether a request may be sent again if its response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeatability {
    /// The request changes nothing.
    ReadOnly,
    /// The request has an `Idempotency-Key`, with which the catalog executes it at most once.
    Keyed,
    /// A second execution could have a second effect.
    Never,
}

/// The ends of the paths of tables at which a `POST` changes nothing.
const READS_OF_TABLES: [&str; 4] = ["metrics", "sign", "plan", "tasks"];
/// Other paths at which a `POST` changes nothing.
const READS_BY_POST: [&str; 3] =
    ["/v1/oauth/tokens", "/management/v1/authorize", "/management/v1/scans/explain"];
/// The parts of the management API whose changes accept an `Idempotency-Key`.
const KEYED_MANAGEMENT: [&str; 8] = [
    "dropped",
    "encryption",
    "grants",
    "jobs",
    "policies",
    "protections",
    "snapshots",
    "warehouses",
];
const MANAGEMENT: &str = "/management/v1/";
const CATALOG: &str = "/v1/";

impl Repeatability {
    /// Classifies a request. Adds an `Idempotency-Key` to a mutation that accepts one and has none.
    pub(super) fn of(method: &Method, path: &str, headers: &mut HeaderMap, ids: &dyn Ids) -> Self {
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Self::ReadOnly;
        }
        let is_post = *method == Method::POST;
        if is_post && is_read_by_post(path) {
            return Self::ReadOnly;
        }
        if !accepts_key(path) {
            return Self::Never;
        }
        headers.entry(IDEMPOTENCY_KEY).or_insert_with(|| {
            let key = ids.ordered().to_string();
            HeaderValue::try_from(key).expect("a UUID is printable ASCII")
        });
        Self::Keyed
    }

    /// Whether the request may be sent again.
    pub(super) fn is_repeatable(self) -> bool {
        self != Self::Never
    }
}

fn is_read_by_post(path: &str) -> bool {
    let segments: Vec<_> = path.split('/').skip(1).collect();
    // A table or a warehouse may have any of these names, so the position of a name matters.
    let of_table = match segments.as_slice() {
        ["v1", "namespaces", _, "tables", _, end]
        | ["v1", _, "namespaces", _, "tables", _, end] => READS_OF_TABLES.contains(end),
        _ => false,
    };
    of_table || READS_BY_POST.contains(&path)
}

fn accepts_key(path: &str) -> bool {
    match path.strip_prefix(MANAGEMENT) {
        Some(rest) => {
            let part = rest.split('/').next().unwrap_or_default();
            KEYED_MANAGEMENT.contains(&part)
        }
        None => path.starts_with(CATALOG),
    }
}

#[cfg(test)]
mod tests {
    use slateberg_base::ids::RandomIds;
    use uuid::Uuid;

    use super::*;

    fn of(method: Method, path: &str) -> (Repeatability, HeaderMap) {
        let mut headers = HeaderMap::new();
        (Repeatability::of(&method, path, &mut headers, &RandomIds), headers)
    }

    #[test]
    fn mutations_of_the_catalog_get_a_key() {
        for (method, path) in [
            (Method::POST, "/v1/namespaces/ns/tables/t"),
            (Method::DELETE, "/v1/wh/namespaces/ns"),
            (Method::POST, "/v1/transactions/commit"),
            (Method::PUT, "/management/v1/policies/p"),
            (Method::POST, "/management/v1/jobs"),
            (Method::POST, "/v1/namespaces/ns/tables/metrics"),
            (Method::POST, "/v1/wh/namespaces/ns/tables/plan"),
            (Method::POST, "/v1/namespaces/ns/views/sign"),
            (Method::POST, "/v1/oauth/namespaces/ns/tables/t"),
        ] {
            let (repeatability, headers) = of(method, path);
            assert_eq!(repeatability, Repeatability::Keyed, "{path}");
            let key = headers[IDEMPOTENCY_KEY].to_str().expect("ASCII");
            assert!(Uuid::parse_str(key).is_ok(), "{key}");
        }
    }

    #[test]
    fn key_of_the_client_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("own"));
        let repeatability =
            Repeatability::of(&Method::POST, "/v1/namespaces", &mut headers, &RandomIds);
        assert_eq!(
            (repeatability, &headers[IDEMPOTENCY_KEY]),
            (Repeatability::Keyed, &HeaderValue::from_static("own"))
        );
    }

    #[test]
    fn reads_are_repeatable_without_a_key() {
        for (method, path) in [
            (Method::GET, "/v1/namespaces"),
            (Method::HEAD, "/v1/namespaces/ns"),
            (Method::POST, "/v1/oauth/tokens"),
            (Method::POST, "/v1/namespaces/ns/tables/t/plan"),
            (Method::POST, "/v1/wh/namespaces/ns/tables/metrics/metrics"),
            (Method::POST, "/management/v1/authorize"),
        ] {
            let (repeatability, headers) = of(method, path);
            assert_eq!((repeatability, headers.len()), (Repeatability::ReadOnly, 0), "{path}");
        }
    }

    #[test]
    fn changes_without_a_key_are_never_repeated() {
        for path in ["api-keys", "checkpoints", "cluster/transfer"] {
            let (repeatability, headers) = of(Method::POST, &format!("/management/v1/{path}"));
            assert_eq!((repeatability, headers.len()), (Repeatability::Never, 0), "{path}");
        }
    }
}
