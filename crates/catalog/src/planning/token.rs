//! [`Token`]: plan ids and plan tasks.
//!
//! A token contains a request and grants no rights: each use is authorized like the request itself.
//! So tokens need no signature: a forged token is only another request. Requests that are too long
//! for a token are stored in memory, in [`LongRequests`].

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use slateberg_model::scan::SnapshotSelection;
use slateberg_telemetry::cache::ByteCache;
use slateberg_telemetry::collection::Collection;

/// Version of the format.
const VERSION: u8 = 1;
/// Maximum size of a request in a token, in bytes.
const INLINE_BYTES_MAX: usize = 512;
/// Maximum length of a token, in characters.
const TOKEN_CHARS_MAX: usize = 2048;
/// Expected size of a stored request, in bytes.
const STORED_BYTES_TYPICAL: u64 = 4 << 10;
/// Maximum number of cancelled plans that are remembered.
const CANCELLED_MAX: usize = 10_000;

/// A part of the live files of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryRange {
    /// The first manifest and the end (exclusive), as positions in the list of all data manifests
    /// of the scan.
    pub(super) manifests: (u32, u32),
    /// The first live file and the end (exclusive), as positions in each of these manifests.
    pub(super) rows: (u32, u32),
}

/// A token that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) selection: Selection,
    pub(super) schema_id: i32,
    body: TokenBody,
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A plan id. The number distinguishes it from the ids of equal plans.
    Plan(u64),
    /// A plan task for these entries.
    Task(EntryRange),
}

/// The snapshots of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// No snapshot, because the table had no snapshots.
    Empty,
    /// One snapshot, or a range.
    Snapshots(SnapshotSelection),
}

/// The parts of a request that can be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestBody {
    /// The filter as JSON.
    pub(super) filter: Option<String>,
    /// Whether its column names are case-sensitive.
    pub(super) case_sensitive: bool,
    /// Ids of the columns whose statistics the client requested.
    pub(super) statistics: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenBody {
    Inline(RequestBody),
    /// The key of a stored request.
    Stored(Uuid),
}

/// Requests that are too long for their tokens, and cancelled plans.
pub(super) struct LongRequests {
    stored: ByteCache<Uuid, Arc<RequestBody>>,
    cancelled: quick_cache::sync::Cache<u64, ()>,
}

impl LongRequests {
    /// Creates an empty store with this limit of the size of all requests, in bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            stored: ByteCache::new(bytes_max, STORED_BYTES_TYPICAL),
            cancelled: quick_cache::sync::Cache::new(CANCELLED_MAX),
        }
    }

    /// Collects the metrics of the stored requests.
    pub(super) fn collect(&self, into: &mut Collection) {
        self.stored.usage().collect(into, "plan_request", "Stored requests of scan plans");
    }

    /// Returns the request of a token. `None` if the request was stored in memory and is no longer
    /// there.
    pub(super) fn request(&self, token: &Token) -> Option<RequestBody> {
        match &token.body {
            TokenBody::Inline(body) => Some(body.clone()),
            TokenBody::Stored(id) => self.stored.get(id).map(|body| RequestBody::clone(&body)),
        }
    }

    /// Records the cancellation of a plan.
    pub(super) fn cancel(&self, nonce: u64) {
        self.cancelled.insert(nonce, ());
    }

    /// Whether a plan was cancelled recently.
    pub(super) fn is_cancelled(&self, nonce: u64) -> bool {
        self.cancelled.get(&nonce).is_some()
    }

    /// Returns the tokens of a plan with this id. Stores the request if it is long. `None` if the
    /// request is long and may not be stored.
    pub(super) fn tokens(
        &self,
        (table, id): (Uuid, Uuid),
        (selection, schema_id): (Selection, i32),
        body: &RequestBody,
        may_store: bool,
    ) -> Option<Tokens> {
        let mut inline = Vec::new();
        body.write(&mut inline);
        let body = if inline.len() <= INLINE_BYTES_MAX {
            TokenBody::Inline(body.clone())
        } else if !may_store {
            return None;
        } else {
            let bytes = inline.len() + size_of::<RequestBody>();
            self.stored.insert(id, Arc::new(body.clone()), bytes);
            TokenBody::Stored(id)
        };
        let (nonce, _) = id.as_u64_pair();
        let token = Token { kind: TokenKind::Plan(nonce), selection, schema_id, body };
        Some(Tokens { table, nonce, token })
    }
}

/// The tokens of a plan.
pub(super) struct Tokens {
    table: Uuid,
    /// The number of the plan.
    nonce: u64,
    /// The plan id.
    token: Token,
}

impl Tokens {
    /// Returns the tokens of a plan with this id and number, for a table.
    pub(super) fn of_plan(table: Uuid, token: Token, nonce: u64) -> Self {
        Self { table, nonce, token }
    }

    /// Returns the table and the number of the plan.
    pub(super) fn key(&self) -> (Uuid, u64) {
        (self.table, self.nonce)
    }

    /// Returns the plan id.
    pub(super) fn plan(&self) -> String {
        self.token.to_text(self.table)
    }

    /// Returns the plan task for a range.
    pub(super) fn task(&self, range: EntryRange) -> String {
        Token { kind: TokenKind::Task(range), ..self.token.clone() }.to_text(self.table)
    }
}

impl Token {
    /// Parses a token for the table with this id. `None` if the string is not a token, or is a
    /// token for another table.
    pub(super) fn parse(text: &str, table: Uuid) -> Option<Self> {
        if text.len() > TOKEN_CHARS_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let mut reader = Reader(&bytes);
        if reader.array::<1>()? != [VERSION] || reader.array()? != *table.as_bytes() {
            return None;
        }
        let kind = match reader.array()? {
            [0] => TokenKind::Plan(u64::from_be_bytes(reader.array()?)),
            [1] => TokenKind::Task(EntryRange {
                manifests: (reader.number()?, reader.number()?),
                rows: (reader.number()?, reader.number()?),
            }),
            _ => return None,
        };
        let selection = match reader.array()? {
            [0] => Selection::Empty,
            [1] => Selection::Snapshots(SnapshotSelection {
                snapshot_id: Some(reader.id()?),
                ..SnapshotSelection::default()
            }),
            [2] => Selection::Snapshots(SnapshotSelection {
                snapshot_id: None,
                start_snapshot_id: Some(reader.id()?),
                end_snapshot_id: Some(reader.id()?),
            }),
            _ => return None,
        };
        let schema_id = i32::from_be_bytes(reader.array()?);
        let body = match reader.array()? {
            [0] => TokenBody::Inline(RequestBody::read(&mut reader)?),
            [1] => TokenBody::Stored(Uuid::from_bytes(reader.array()?)),
            _ => return None,
        };
        reader.0.is_empty().then_some(Self { kind, selection, schema_id, body })
    }

    fn to_text(&self, table: Uuid) -> String {
        let mut out = vec![VERSION];
        out.extend(table.as_bytes());
        match self.kind {
            TokenKind::Plan(nonce) => {
                out.push(0);
                out.extend(nonce.to_be_bytes());
            }
            TokenKind::Task(EntryRange { manifests, rows }) => {
                out.push(1);
                for number in [manifests.0, manifests.1, rows.0, rows.1] {
                    out.extend(number.to_be_bytes());
                }
            }
        }
        match self.selection {
            Selection::Empty => out.push(0),
            Selection::Snapshots(selection) => {
                let SnapshotSelection { snapshot_id, start_snapshot_id, end_snapshot_id } =
                    selection;
                out.push(if snapshot_id.is_some() { 1 } else { 2 });
                let ids = [snapshot_id, start_snapshot_id, end_snapshot_id];
                ids.into_iter().flatten().for_each(|id| out.extend(id.to_be_bytes()));
            }
        }
        out.extend(self.schema_id.to_be_bytes());
        match &self.body {
            TokenBody::Inline(body) => {
                out.push(0);
                body.write(&mut out);
            }
            TokenBody::Stored(id) => {
                out.push(1);
                out.extend(id.as_bytes());
            }
        }
        URL_SAFE_NO_PAD.encode(out)
    }
}

impl RequestBody {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.case_sensitive));
        let statistics = u32::try_from(self.statistics.len()).unwrap_or(u32::MAX);
        out.extend(statistics.to_be_bytes());
        self.statistics.iter().for_each(|id| out.extend(id.to_be_bytes()));
        out.push(u8::from(self.filter.is_some()));
        out.extend(self.filter.as_deref().unwrap_or_default().as_bytes());
    }

    /// Reads a request, which extends to the end of the token.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let case_sensitive = reader.bool()?;
        let count = reader.number()?;
        let statistics = (0..count).map(|_| reader.array().map(i32::from_be_bytes));
        let statistics = statistics.collect::<Option<_>>()?;
        let has_filter = reader.bool()?;
        let rest = std::str::from_utf8(std::mem::take(&mut reader.0)).ok()?;
        let filter = has_filter.then(|| rest.to_owned());
        (has_filter || rest.is_empty()).then_some(Self { filter, case_sensitive, statistics })
    }
}

/// Reads a token.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn id(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: Uuid = Uuid::from_u128(7);

    fn tokens() -> Vec<Token> {
        let range = SnapshotSelection {
            snapshot_id: None,
            start_snapshot_id: Some(i64::MIN),
            end_snapshot_id: Some(i64::MAX),
        };
        let one = SnapshotSelection { snapshot_id: Some(-5), ..SnapshotSelection::default() };
        let task = EntryRange { manifests: (0, 9), rows: (1, u32::MAX) };
        let body = |filter: Option<&str>, statistics: &[i32]| {
            let (filter, statistics) = (filter.map(ToOwned::to_owned), statistics.to_vec());
            TokenBody::Inline(RequestBody { filter, case_sensitive: true, statistics })
        };
        let selections = [Selection::Empty, Selection::Snapshots(range), Selection::Snapshots(one)];
        let bodies =
            [body(None, &[]), body(Some(r#"{"ü":1}"#), &[1, -2]), TokenBody::Stored(TABLE)];
        let mut all = Vec::new();
        for kind in [TokenKind::Plan(u64::MAX), TokenKind::Task(task)] {
            for selection in selections {
                for body in &bodies {
                    all.push(Token { kind, selection, schema_id: -1, body: body.clone() });
                }
            }
        }
        all
    }

    #[test]
    fn tokens_survive_a_round_trip() {
        for token in tokens() {
            let text = token.to_text(TABLE);
            assert_eq!(Token::parse(&text, TABLE), Some(token));
            assert_eq!(Token::parse(&text, Uuid::nil()), None, "it is for another table");
        }
    }

    #[test]
    fn truncated_or_altered_token_never_panics() {
        for token in tokens() {
            let text = token.to_text(TABLE);
            for end in 0..text.len() {
                let truncated = Token::parse(&text[..end], TABLE);
                // A filter extends to the end of the token. So a truncated token with a filter can
                // be parsed, but its filter is not valid JSON.
                let has_filter = |token: &Token| match &token.body {
                    TokenBody::Inline(body) => body.filter.is_some(),
                    TokenBody::Stored(_) => false,
                };
                assert!(truncated.is_none_or(|token| has_filter(&token)));
                let mut altered = text.clone().into_bytes();
                altered[end] ^= 1;
                let _ = Token::parse(&String::from_utf8_lossy(&altered), TABLE);
            }
        }
        for text in ["", "AQ", "%", &"A".repeat(TOKEN_CHARS_MAX + 4)] {
            assert_eq!(Token::parse(text, TABLE), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn altered_bytes_of_a_token_never_panic(
            token in prop::sample::select(tokens()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
            appended in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let text = token.to_text(TABLE);
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).expect("a token is base64");
            bytes.extend(appended);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(parsed) = Token::parse(&URL_SAFE_NO_PAD.encode(&bytes), TABLE) {
                prop_assert_eq!(Token::parse(&parsed.to_text(TABLE), TABLE), Some(parsed));
            }
        }
    }
}
