//! The known name that a misspelled one resembles.

/// Similarity (Jaro-Winkler) from which on one name is taken for a misspelling of another.
const SIMILARITY_MIN: f64 = 0.75;

/// Returns the candidate that resembles `name` most, if one resembles it enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |other: &'a str| (strsim::jaro_winkler(name, other), other);
    let scored = candidates.into_iter().map(score);
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).map(|(_, name)| name)
}
