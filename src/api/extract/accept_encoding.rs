//! The request header `Accept-Encoding`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::api::coding::{Coding, PreferredCodings};
use crate::api::state::ApiState;

/// The codings that the client prefers among the supported ones. Without the header, or without a
/// supported coding in it, the body is sent uncompressed.
pub struct AcceptEncoding(pub PreferredCodings);

impl FromRequestParts<ApiState> for AcceptEncoding {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, Infallible> {
        Ok(Self(preferred_codings(&parts.headers)))
    }
}

/// Weights in thousandths. `None` if the list does not name the coding.
#[derive(Default)]
struct Weights {
    identity: Option<u16>,
    gzip: Option<u16>,
    zstd: Option<u16>,
    any: Option<u16>,
}

fn preferred_codings(headers: &HeaderMap) -> PreferredCodings {
    let mut weights = Weights::default();
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        // A value that is not ASCII names no supported coding.
        value.to_str().unwrap_or_default().split(',').for_each(|member| weights.add(member));
    }
    let weight = |named: Option<u16>| named.or(weights.any).unwrap_or(0);
    let identity = (weights.identity.unwrap_or(0), Coding::Identity);
    let gzip = (weight(weights.gzip), Coding::Gzip);
    let zstd = (weight(weights.zstd), Coding::Zstd);
    PreferredCodings {
        inline: last_of_the_best([identity, gzip, zstd]),
        chunked: last_of_the_best([identity, zstd, gzip]),
    }
}

/// Returns the coding with the highest weight. If weights are equal, a later coding wins.
fn last_of_the_best(codings: [(u16, Coding); 3]) -> Coding {
    let mut best = codings[0];
    for other in codings {
        if other.0 > 0 && other.0 >= best.0 {
            best = other;
        }
    }
    best.1
}

impl Weights {
    /// Adds one member of the list, such as `gzip;q=0.5`. Ignores a malformed member.
    fn add(&mut self, member: &str) {
        let mut parts = member.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let Some(weight) = parts.next().map_or(Some(1000), thousandths) else { return };
        let named = [
            (&mut self.gzip, ["gzip", "x-gzip"]),
            (&mut self.zstd, ["zstd", "zstd"]),
            (&mut self.identity, ["identity", "identity"]),
            (&mut self.any, ["*", "*"]),
        ];
        for (slot, names) in named {
            if names.iter().any(|name| coding.eq_ignore_ascii_case(name)) {
                // `gzip;q=0, x-gzip` accepts gzip by its second name.
                *slot = (*slot).max(Some(weight));
            }
        }
    }
}

/// Parses a weight such as `q=0.5` into thousandths.
fn thousandths(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    let weight: f32 = value.trim().parse().ok()?;
    let is_weight = name.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&weight);
    // Round up: a weight below a thousandth must not become zero, which would forbid the coding.
    is_weight.then_some((weight * 1000.0).ceil() as u16)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn preferred(lines: &[&str]) -> PreferredCodings {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(line).expect("a value"));
        }
        preferred_codings(&headers)
    }

    #[test]
    fn accepted_coding_with_the_highest_weight_is_preferred() {
        let cases: [(&[&str], Coding); 21] = [
            (&[], Coding::Identity),
            (&[""], Coding::Identity),
            (&["identity"], Coding::Identity),
            (&["br, deflate"], Coding::Identity),
            (&["gzip"], Coding::Gzip),
            (&["gzip, x-gzip, deflate"], Coding::Gzip),
            (&["GZip ; Q=0.3"], Coding::Gzip),
            (&["x-gzip"], Coding::Gzip),
            (&["gzip, deflate, br, zstd"], Coding::Zstd),
            (&["gzip", "zstd"], Coding::Zstd),
            (&["gzip;q=1.0, zstd;q=0.9"], Coding::Gzip),
            (&["gzip;q=0, zstd;q=0"], Coding::Identity),
            (&["identity, gzip;q=0.5"], Coding::Identity),
            (&["identity;q=0.5, gzip;q=0.5"], Coding::Gzip),
            (&["*"], Coding::Zstd),
            (&["zstd;q=0, *;q=0.1"], Coding::Gzip),
            (&["*;q=0"], Coding::Identity),
            (&["gzip;q=2"], Coding::Identity),
            (&["gzip;q=NaN"], Coding::Identity),
            (&["gzip;level=9"], Coding::Identity),
            (&[",;=,gzip;q=0.0001"], Coding::Gzip),
        ];
        for (lines, coding) in cases {
            assert_eq!(preferred(lines).inline, coding, "{lines:?}");
        }
    }

    #[test]
    fn gzip_is_preferred_for_chunks_unless_zstd_has_a_higher_weight() {
        let cases = [
            ("", Coding::Identity),
            ("gzip;q=0", Coding::Identity),
            ("identity, gzip;q=0.5", Coding::Identity),
            ("zstd", Coding::Zstd),
            ("gzip;q=0, zstd", Coding::Zstd),
            ("gzip;q=0.9, zstd", Coding::Zstd),
            ("gzip, deflate, br, zstd", Coding::Gzip),
            ("*", Coding::Gzip),
        ];
        for (line, coding) in cases {
            assert_eq!(preferred(&[line]).chunked, coding, "{line}");
        }
    }
}
