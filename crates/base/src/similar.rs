//! Suggestion of a known name for a misspelled one.

/// Minimum similarity of a suggestion, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.6;
/// Minimum length of a name that counts as an abbreviation of another one.
const ABBREVIATION_CHARS_MIN: usize = 3;

/// Returns the candidate most similar to `name`. Returns `None` if no candidate is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|other| (similarity(name, other), other));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= SIMILARITY_MIN).map(|(_, other)| other)
}

/// Returns the similarity, from 0 to 1. Abbreviations (`info` for `information`) and single words
/// of a name (`key` in `aws_key`) also count as similar, although many letters are missing.
fn similarity(one: &str, other: &str) -> f64 {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let spelling = strsim::normalized_damerau_levenshtein(&one, &other);
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let is_abbreviation = short.len() >= ABBREVIATION_CHARS_MIN && long.starts_with(&short);
    let is_word = long.strip_suffix(&short).is_some_and(|before| before.ends_with(['_', '-']));
    let resemblance = if is_abbreviation || is_word { SIMILARITY_MIN } else { 0.0 };
    spelling.max(resemblance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_name_suggests_the_nearest_candidate() {
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        for (name, meant) in [("warning", "warn"), ("trac", "trace"), ("INFO", "info")] {
            assert_eq!(nearest(name, levels), Some(meant), "{name}");
        }
        assert_eq!(nearest("verbose", levels), None);
        let keys = ["kms", "local_key_file", "aws_key", "aws_region"];
        assert_eq!(nearest("key", keys), Some("aws_key"));
        assert_eq!(nearest("aws_regoin", keys), Some("aws_region"));
        assert_eq!(nearest("credentials", ["client_defaults", "access"]), None);
        assert_eq!(nearest("anything", []), None);
    }
}
