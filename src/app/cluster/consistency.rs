//! [`Consistency`]: which changes the response to a read must contain, as the headers of a client
//! state it.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::api::error::ApiError;

/// The header in which a client states which changes the response to a read must contain.
const CONSISTENCY: HeaderName = HeaderName::from_static("x-slateberg-consistency");
/// The header with the sequence number of an earlier response. A bounded read also contains all
/// changes that this response contained.
const AT_LEAST: HeaderName = HeaderName::from_static("x-slateberg-at-least");
/// The header with a sequence number for later reads: a response with this number contains all
/// changes that this response contains.
const SEQUENCE: HeaderName = HeaderName::from_static("x-slateberg-sequence");
/// The header with the maximum age of the state in a response, in milliseconds.
const STALENESS: HeaderName = HeaderName::from_static("x-slateberg-staleness-ms");

const LINEARIZABLE: &str = "linearizable";
const BOUNDED: &str = "bounded; max-staleness-ms=";
/// Maximum of the staleness that a client can accept.
const STALENESS_MAX: Duration = Duration::from_secs(60);

/// The changes that the response to a read must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consistency {
    /// All changes that were acknowledged before the request arrived.
    Linearizable,
    /// All changes that were acknowledged some time before the request arrived.
    Bounded {
        /// This time.
        staleness_max: Duration,
        /// In addition, all changes up to this sequence number.
        at_least: u64,
    },
}

impl Consistency {
    /// Reads the headers of a request.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let expected = || {
            let milliseconds_max = STALENESS_MAX.as_millis();
            format!("'{LINEARIZABLE}' or '{BOUNDED}N', where N is at most {milliseconds_max}")
        };
        let Some(Some(staleness_max)) = parsed(headers, &CONSISTENCY, parse, expected)? else {
            return Ok(Self::Linearizable);
        };
        let number = |text: &str| text.parse().ok();
        let expected = || format!("the value of {SEQUENCE} in an earlier response");
        let at_least = parsed(headers, &AT_LEAST, number, expected)?.unwrap_or(0);
        Ok(Self::Bounded { staleness_max, at_least })
    }

    /// Whether a request may ask for a bounded read.
    pub(super) fn is_stated(headers: &HeaderMap) -> bool {
        headers.contains_key(CONSISTENCY)
    }

    /// Returns what a read on a state with this sequence number requires.
    pub(super) fn at(self, sequence: u64) -> Self {
        match self {
            Self::Bounded { at_least, .. } if at_least > sequence => Self::Linearizable,
            unchanged => unchanged,
        }
    }
}

fn parsed<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: impl Fn(&str) -> Option<T>,
    expected: impl Fn() -> String,
) -> Result<Option<T>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let value = value.to_str().ok().and_then(parse);
    let invalid = || ApiError::bad_request(format!("Invalid {name}: expected {}", expected()));
    value.map(Some).ok_or_else(invalid)
}

/// Returns the maximum staleness, or `Some(None)` for linearizable reads.
fn parse(text: &str) -> Option<Option<Duration>> {
    if text == LINEARIZABLE {
        return Some(None);
    }
    let staleness = Duration::from_millis(text.strip_prefix(BOUNDED)?.parse().ok()?);
    (staleness <= STALENESS_MAX).then_some(Some(staleness))
}

/// States the maximum age of the state in a response.
pub(super) fn state_age(response: &mut Response, age: Duration) {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    response.headers_mut().insert(STALENESS, HeaderValue::from(age_ms));
}

/// States a sequence number that is at least that of the state in a response.
pub(super) fn state_sequence(response: &mut Response, sequence: u64) {
    response.headers_mut().insert(SEQUENCE, HeaderValue::from(sequence));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&HeaderName, &str)]) -> Option<Consistency> {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.insert(*name, value.parse().expect("a header"));
        }
        Consistency::of(&headers).ok()
    }

    #[test]
    fn consistency_is_read_from_the_headers() {
        assert_eq!(of(&[]), Some(Consistency::Linearizable));
        assert_eq!(of(&[(&CONSISTENCY, "linearizable")]), Some(Consistency::Linearizable));
        let text = "bounded; max-staleness-ms=250";
        let staleness_max = Duration::from_millis(250);
        let bounded = |at_least| Some(Consistency::Bounded { staleness_max, at_least });
        assert_eq!(of(&[(&CONSISTENCY, text)]), bounded(0));
        assert_eq!(of(&[(&CONSISTENCY, text), (&AT_LEAST, "7")]), bounded(7));
        for invalid in
            ["", "bounded", "bounded; max-staleness-ms=-1", "bounded; max-staleness-ms=60001"]
        {
            assert_eq!(of(&[(&CONSISTENCY, invalid)]), None, "{invalid}");
        }
        assert_eq!(of(&[(&CONSISTENCY, text), (&AT_LEAST, "-1")]), None);
    }

    #[test]
    fn read_of_an_earlier_state_than_the_client_knows_is_linearizable() {
        let bounded = Consistency::Bounded { staleness_max: STALENESS_MAX, at_least: 7 };
        assert_eq!(bounded.at(7), bounded);
        assert_eq!(bounded.at(6), Consistency::Linearizable);
    }
}
