//! The W3C's trace context: by what a trace and its spans are known, and how a request says so.

use std::fmt;

use slateberg_base::secret::random_bytes;

/// The header that says which trace a request belongs to.
pub const TRACEPARENT: &str = "traceparent";
/// The header with what vendors add to it, which is passed on as it is.
pub const TRACESTATE: &str = "tracestate";

/// Bytes of a `tracestate` that is kept.
const TRACESTATE_BYTES_MAX: usize = 512;
/// The flag by which a caller says that it keeps the trace.
const SAMPLED: u8 = 1;

/// The name of a trace: sixteen bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The name of a span in its trace: eight bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// What a caller says of the trace that its request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its trace.
    pub trace_id: TraceId,
    /// The caller's span.
    pub span_id: SpanId,
    /// Whether the caller keeps it.
    pub sampled: bool,
    /// What vendors add.
    pub state: Option<Box<str>>,
}

impl TraceId {
    /// A new one.
    pub fn random() -> Self {
        Self(random_bytes())
    }
}

impl SpanId {
    /// A new one.
    pub fn random() -> Self {
        Self(random_bytes())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Remote {
    /// What a `traceparent` says; none if it is not as it has to be: then the request begins a trace of its
    /// own, as the W3C has it.
    pub fn parse(traceparent: &[u8], tracestate: Option<&[u8]>) -> Option<Self> {
        let text = std::str::from_utf8(traceparent).ok()?.trim_matches([' ', '\t']);
        let mut fields = text.split('-');
        let version = hex::<1>(fields.next()?)?[0];
        let trace_id = TraceId(hex(fields.next()?)?);
        let span_id = SpanId(hex(fields.next()?)?);
        let flags = hex::<1>(fields.next()?)?[0];
        // What later versions add stands behind; of this one, nothing may.
        let known = version != 0xff && (version != 0 || fields.next().is_none());
        let valid = known && trace_id.0 != [0; 16] && span_id.0 != [0; 8];
        let state = tracestate.filter(|state| state.len() <= TRACESTATE_BYTES_MAX);
        let state = state.and_then(|state| std::str::from_utf8(state).ok()).map(Into::into);
        valid.then_some(Self { trace_id, span_id, sampled: flags & SAMPLED != 0, state })
    }
}

/// Bytes in hexadecimal, in lower case.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_traceparent_is_read() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let remote = Remote::parse(text.as_bytes(), Some(b"congo=t61")).expect("it is valid");
        assert_eq!((remote.trace_id.to_string(), remote.span_id.to_string()), {
            (TRACE.to_owned(), SPAN.to_owned())
        });
        assert!(remote.sampled);
        assert_eq!(remote.state.as_deref(), Some("congo=t61"));
        let unsampled = format!("00-{TRACE}-{SPAN}-02");
        assert!(!Remote::parse(unsampled.as_bytes(), None).expect("it is valid").sampled);
        let later = format!("01-{TRACE}-{SPAN}-01-more");
        assert!(Remote::parse(later.as_bytes(), None).is_some());
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let zero_trace = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zero_trace}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}{SPAN}-01"),
            "00-\u{e9}-x-01".to_owned(),
        ] {
            assert_eq!(Remote::parse(wrong.as_bytes(), None), None, "{wrong}");
        }
    }
}
