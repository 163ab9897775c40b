//! Redaction of secrets in messages: an object store's error may repeat parts of the request.

use url::form_urlencoded::byte_serialize;

use slateberg_base::secret::Secret;

/// Replacement for a secret.
const SCRUBBED: &str = "(secret)";
/// Minimum length of a part of a secret that is redacted. Shorter parts would match ordinary words.
const PART_BYTES_MIN: usize = 8;

/// Returns `text` without these secrets and their longer parts, both plain and URL-encoded.
pub(super) fn redact<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut parts: Vec<String> = secrets.into_iter().flat_map(parts).collect();
    // The longest parts are replaced first. If a short part inside a longer part were replaced
    // first, the rest of the longer part would stay visible.
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts.iter().fold(text.to_owned(), |text, part| text.replace(part.as_str(), SCRUBBED))
}

/// Returns the secret. If the secret is a query (such as a shared access signature) or JSON, also
/// returns its components.
fn parts(secret: &Secret) -> Vec<String> {
    let whole = secret.reveal();
    let split = |c: char| c.is_whitespace() || "&=?\"{},\\".contains(c);
    let pieces = whole.split(split).filter(|piece| piece.len() >= PART_BYTES_MIN);
    let all = pieces.chain((!whole.is_empty()).then_some(whole));
    all.flat_map(|part| [part.to_owned(), byte_serialize(part.as_bytes()).collect()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redaction_removes_all_parts_of_a_secret() {
        let key = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCY");
        let sas = Secret::new("?sv=2024-01-01&sig=abcdefgh%2Fijkl");
        let json = Secret::new("{\"private_key\": \"-----BEGIN\\nMIIEvQIBADAN\\n\"}");
        for (text, kept) in [
            ("key wJalrXUtnFEMI/K7MDENG+bPxRfiCY!", "key (secret)!"),
            ("a=wJalrXUtnFEMI%2FK7MDENG%2BbPxRfiCY", "a=(secret)"),
            ("sig=abcdefgh%2Fijkl", "sig=(secret)"),
            ("at nMIIEvQIBADAN", "at (secret)"),
            ("access denied", "access denied"),
        ] {
            assert_eq!(redact(text, [&key, &sas, &json]), kept);
        }
        assert_eq!(redact("text", [&Secret::new("")]), "text");
    }
}
