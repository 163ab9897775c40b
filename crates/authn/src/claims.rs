//! Validation of a token's claims. Pure: the time is an argument, and signatures are checked
//! elsewhere.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The claims of a token's payload.
pub(super) type Claims = Map<String, Value>;

/// The requirements on a token's claims.
#[derive(Debug, Clone)]
pub(super) struct Rules<'a> {
    /// The required `iss`.
    pub issuer: &'a str,
    /// The accepted audiences. `aud` must contain one of them.
    pub audiences: &'a [String],
    /// Maximum clock difference to the issuer, in milliseconds.
    pub leeway_ms: i64,
}

/// Returns the time until which the token is valid (its `exp` plus the leeway), in milliseconds
/// since 1970. Errors with the reason if the token is not valid now.
pub(super) fn check(claims: &Claims, rules: &Rules<'_>, now_ms: i64) -> Result<i64, &'static str> {
    if claims.get("iss").and_then(Value::as_str) != Some(rules.issuer) {
        return Err("another issuer");
    }
    let is_for_us = |audience: &str| rules.audiences.iter().any(|ours| ours == audience);
    let audience = match claims.get("aud") {
        Some(Value::String(audience)) => is_for_us(audience),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).any(is_for_us),
        _ => false,
    };
    if !audience {
        return Err("another audience");
    }
    let expires_ms = claims.get("exp").and_then(date_ms).ok_or("no expiry")?;
    let expires_ms = expires_ms.saturating_add(rules.leeway_ms);
    if expires_ms <= now_ms {
        return Err("expired");
    }
    match claims.get("nbf") {
        None => Ok(expires_ms),
        Some(not_before) => match date_ms(not_before) {
            None => Err("an invalid nbf"),
            Some(from_ms) if from_ms.saturating_sub(rules.leeway_ms) > now_ms => Err("too early"),
            Some(_) => Ok(expires_ms),
        },
    }
}

/// Parses a `NumericDate`: seconds, which may have a fraction.
fn date_ms(value: &Value) -> Option<i64> {
    // Later than any real time, and exact in floating point.
    const SECONDS_MAX: f64 = 1e13;
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))?;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    Some((seconds * 1000.0) as i64)
}

/// Returns the claim at a path. The path is the name of the claim, or the names of nested claims,
/// separated by dots.
pub(super) fn at<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let inner = claims.get(&path[..dot])?.as_object()?;
        at(inner, &path[dot + 1..])
    })
}

/// Returns the string at a path. `None` if it is missing, empty or not a string.
pub(crate) fn text_at<'a>(claims: &'a Claims, path: &str) -> Option<&'a str> {
    at(claims, path)?.as_str().filter(|text| !text.is_empty())
}

/// Returns the names at a path. The claim is an array of names, or a string of names separated by
/// spaces.
pub(crate) fn names_at(claims: &Claims, path: &str) -> BTreeSet<String> {
    match at(claims, path) {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

/// Returns the `iss` of an unverified token.
pub(crate) fn alleged_issuer(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&bytes).ok()?;
    text_at(&claims, "iss").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn claims(value: Value) -> Claims {
        value.as_object().expect("an object").clone()
    }

    fn checked(change: impl FnOnce(&mut Claims)) -> Result<i64, &'static str> {
        let mut claims =
            claims(json!({ "iss": "https://i", "aud": ["x", "catalog"], "exp": 1_800_000_060 }));
        change(&mut claims);
        let audiences = ["catalog".to_owned()];
        let rules = Rules { issuer: "https://i", audiences: &audiences, leeway_ms: 30_000 };
        check(&claims, &rules, NOW_MS)
    }

    #[test]
    fn token_is_valid_for_its_lifetime_and_the_leeway() {
        let with = |name: &str, value: Value| {
            checked(|claims| {
                claims.insert(name.to_owned(), value);
            })
        };
        assert_eq!(checked(|_| {}), Ok(NOW_MS + 90_000));
        assert_eq!(with("exp", json!(1_799_999_971)), Ok(NOW_MS + 1_000));
        assert_eq!(with("exp", json!(1_799_999_970)), Err("expired"));
        assert_eq!(with("exp", json!(1_799_999_970.5)), Ok(NOW_MS + 500));
        assert_eq!(with("nbf", json!(1_800_000_030)), Ok(NOW_MS + 90_000));
        assert_eq!(with("nbf", json!(1_800_000_031)), Err("too early"));
        for broken in [json!(null), json!("1800000060"), json!(-1), json!(1e300), json!([1])] {
            assert_eq!(with("exp", broken.clone()), Err("no expiry"), "{broken}");
            assert_eq!(with("nbf", broken.clone()), Err("an invalid nbf"), "{broken}");
        }
    }

    #[test]
    fn issuer_and_audience_match_exactly() {
        let with = |name: &str, value: Value| {
            checked(|claims| {
                claims.insert(name.to_owned(), value);
            })
        };
        for other in [json!("https://i/"), json!("HTTPS://I"), json!(["https://i"]), json!(null)] {
            assert_eq!(with("iss", other.clone()), Err("another issuer"), "{other}");
        }
        assert!(with("aud", json!("catalog")).is_ok());
        for other in [json!("Catalog"), json!([]), json!([["catalog"]]), json!({}), json!(null)] {
            assert_eq!(with("aud", other.clone()), Err("another audience"), "{other}");
        }
    }

    #[test]
    fn paths_lead_into_nested_claims_and_names_may_hold_dots() {
        let claims = claims(json!({
            "sub": "alice",
            "empty": "",
            "scope": "read write",
            "realm_access": { "roles": ["a", 1, "b"] },
            "https://example.com/roles": ["c"],
            "a.b": { "c.d": "found" },
        }));
        assert_eq!(text_at(&claims, "sub"), Some("alice"));
        assert_eq!(text_at(&claims, "empty"), None);
        assert_eq!(text_at(&claims, "a.b.c.d"), Some("found"));
        assert_eq!(text_at(&claims, "sub.x"), None);
        let names = |path| names_at(&claims, path).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("realm_access.roles"), "a b");
        assert_eq!(names("https://example.com/roles"), "c");
        assert_eq!(names("scope"), "read write");
        assert_eq!(names("nothing"), "");
    }

    proptest! {
        #[test]
        fn issuer_of_any_string_is_parsed_without_panic(text in ".*", payload: Vec<u8>) {
            let _ = alleged_issuer(&text);
            let _ = alleged_issuer(&format!("a.{}.c", BASE64_URL_SAFE_NO_PAD.encode(payload)));
        }
    }
}
