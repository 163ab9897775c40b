//! The character that separates the levels of a namespace in paths and in the query parameter
//! `parent`.

use std::borrow::Cow;

use super::ident::NamespaceIdent;
use super::refusal::Refusal;
use super::warehouse::Warehouse;

/// The key with which the client configuration advertises a URL-encoded separator.
pub const PROPERTY: &str = "namespace-separator";
/// The separator that every client and server supports.
pub const DEFAULT: char = '\u{1f}';
/// Characters with a special meaning in a URL or in a segment of its path.
const RESERVED: &str = "/\\?#%+&= ";

/// Parses the value of [`PROPERTY`], such as `%2E` or `.`, and returns the separator.
pub fn parse(value: &str) -> Result<char, Refusal> {
    let invalid = || {
        Refusal::invalid(format!(
            "Invalid {PROPERTY}: expected %1F, or one character of punctuation such as %2E, got '{value}'"
        ))
    };
    let mut chars = value.chars();
    let separator = match (chars.next(), chars.as_str()) {
        (Some('%'), hex) if hex.len() == 2 => {
            u8::from_str_radix(hex, 16).map(char::from).map_err(|_| invalid())?
        }
        (Some(one), "") => one,
        _ => return Err(invalid()),
    };
    let is_punctuation = separator.is_ascii_punctuation() && !RESERVED.contains(separator);
    if is_punctuation || separator == DEFAULT { Ok(separator) } else { Err(invalid()) }
}

impl Warehouse {
    /// Returns the separator that `GET /v1/config` advertises to clients of this warehouse. The
    /// server accepts [`DEFAULT`] in addition.
    pub fn namespace_separator(&self) -> char {
        let advertised =
            self.client_overrides.get(PROPERTY).or_else(|| self.client_defaults.get(PROPERTY));
        // Invalid separators were rejected when the warehouse was created.
        advertised.and_then(|value| parse(value).ok()).unwrap_or(DEFAULT)
    }

    /// Rejects a new namespace if one of its levels contains the advertised separator. Some clients
    /// could not address such a namespace: they do not encode the separator, so a separator inside
    /// a level would look like a separator between levels.
    pub fn check_new_namespace(&self, namespace: &NamespaceIdent) -> Result<(), Refusal> {
        let separator = self.namespace_separator();
        match namespace.0.iter().find(|level| level.contains(separator)) {
            None => Ok(()),
            Some(level) => Err(Refusal::invalid(format!(
                "Invalid namespace level: '{level}' contains '{separator}', which separates the levels of \
                 namespaces in this warehouse ({PROPERTY})"
            ))),
        }
    }
}

/// Splits a namespace that is not URL-encoded.
pub fn split(joined: &str, separator: char) -> NamespaceIdent {
    let separator = if joined.contains(DEFAULT) { DEFAULT } else { separator };
    NamespaceIdent(joined.split(separator).map(ToOwned::to_owned).collect())
}

/// Splits a URL-encoded namespace and decodes its levels with `decode`. Java clients encode the
/// advertised separator between levels, but not inside a level. PyIceberg sends the separator
/// unencoded.
pub fn split_encoded<E>(
    raw: &str,
    separator: char,
    decode: impl Fn(&str) -> Result<String, E>,
) -> Result<NamespaceIdent, E> {
    if separator == DEFAULT {
        return Ok(split(&decode(raw)?, DEFAULT));
    }
    let normal = upper_case_escapes(raw);
    let escape = |it: char| format!("%{:02X}", u32::from(it));
    let is_legacy = normal.contains(&escape(DEFAULT)) || normal.contains(DEFAULT);
    let encoded = escape(separator);
    if is_legacy || !normal.contains(&encoded) {
        return Ok(split(&decode(raw)?, separator));
    }
    normal.split(&encoded).map(decode).collect::<Result<_, _>>().map(NamespaceIdent)
}

/// Returns the string with the hexadecimal digits of its escapes (`%2e`) in upper case.
fn upper_case_escapes(raw: &str) -> Cow<'_, str> {
    if !raw.contains('%') {
        return Cow::Borrowed(raw);
    }
    let mut digits = 0;
    let normal = raw.chars().map(|c| match c {
        '%' => {
            digits = 2;
            c
        }
        _ if digits > 0 => {
            digits -= 1;
            c.to_ascii_uppercase()
        }
        _ => c,
    });
    Cow::Owned(normal.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separator_must_be_unreserved_punctuation() {
        for (value, separator) in
            [("%2E", '.'), ("%2e", '.'), (".", '.'), ("%1F", DEFAULT), ("$", '$')]
        {
            assert_eq!(parse(value), Ok(separator), "{value}");
        }
        for value in ["", "%", "%2", "%2F", "/", "a", "%41", "%20", "::", "%25", "+", "%C3", "%ZZ"]
        {
            assert!(parse(value).is_err(), "{value}");
        }
    }

    #[test]
    fn levels_split_at_the_separators_of_all_clients() {
        let decode = |text: &str| Ok::<_, ()>(text.replace("%2E", ".").replace("%1F", "\u{1f}"));
        let levels = |raw: &str| split_encoded(raw, '.', decode).map(|ident| ident.0);
        let expected = |levels: &[&str]| Ok(levels.iter().map(ToString::to_string).collect());
        assert_eq!(levels("a%2Eb"), expected(&["a", "b"]));
        assert_eq!(levels("a%2eb"), expected(&["a", "b"]));
        assert_eq!(levels("a.b"), expected(&["a", "b"]));
        assert_eq!(levels("a%1Fb"), expected(&["a", "b"]));
        assert_eq!(levels("a.b%2Ec"), expected(&["a.b", "c"]));
        assert_eq!(levels("a.b%1Fc"), expected(&["a.b", "c"]));
        assert_eq!(levels("a"), expected(&["a"]));
        let default =
            split_encoded("a.b%1fc", DEFAULT, |it| Ok::<_, ()>(it.replace("%1f", "\u{1f}")));
        assert_eq!(default.map(|ident| ident.0), expected(&["a.b", "c"]));
    }
}
