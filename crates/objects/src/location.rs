//! Locations: the URLs in Iceberg metadata, and their containment.
//!
//! Locations are compared by their segments, not as strings. If readers could interpret a location
//! in two ways (`..`, encoded slashes, empty segments, ...), it is rejected. So a location within a
//! warehouse is within this warehouse for every reader.

use std::fmt;

use percent_encoding::percent_decode_str;

/// A parsed location.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    scheme: String,
    authority: String,
    segments: Vec<String>,
}

/// Error for a string that is not a location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid location '{text}': {reason}")]
pub struct InvalidLocation {
    text: String,
    reason: &'static str,
}

/// Maximum length of a location in bytes. It suffices for the longest key of S3 and its bucket.
const LOCATION_BYTES_MAX: usize = 2048;

/// Further schemes of Hadoop for Azure's containers. No store can be opened with them.
const AZURE_OF_HADOOP: [&str; 2] = ["wasb", "wasbs"];

/// Schemes of Azure's stores.
pub(crate) const AZURE: [&str; 5] = ["az", "azure", "adl", "abfs", "abfss"];

/// Encodings of a dot, a slash and a backslash, which only some readers decode.
const AMBIGUOUS: [&str; 3] = ["%2e", "%2f", "%5c"];

impl Location {
    /// Parses a location: `scheme://authority/path`, `file:/path` or an absolute path.
    pub fn parse(text: &str) -> Result<Self, InvalidLocation> {
        let invalid = |reason| InvalidLocation { text: excerpt(text), reason };
        if text.len() > LOCATION_BYTES_MAX {
            return Err(invalid("too long"));
        }
        if text.chars().any(|c| c.is_control() || matches!(c, '?' | '#' | '\\')) {
            return Err(invalid("contains a character that is not allowed in locations"));
        }
        if text.contains('%') && is_ambiguous(text) {
            return Err(invalid("contains an encoded dot, slash or backslash"));
        }
        let (scheme, authority, path) = split(text).ok_or_else(|| {
            invalid("expected a URL with a scheme, such as s3://bucket/path or file:///path")
        })?;
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<String> = match path {
            "" => Vec::new(),
            path => path.split('/').map(ToOwned::to_owned).collect(),
        };
        if segments.iter().any(|segment| matches!(segment.as_str(), "" | "." | "..")) {
            return Err(invalid("contains an empty, '.' or '..' segment"));
        }
        Ok(Self { scheme, authority, segments })
    }

    /// Whether this location is `root` or below it.
    pub fn is_within(&self, root: &Self) -> bool {
        self.scheme == root.scheme
            && self.authority == root.authority
            && self.segments.starts_with(&root.segments)
    }

    /// Returns the kind of store, the bucket, and the segments of the path. Two locations overlap
    /// if the parts of one are a prefix of the parts of the other.
    pub fn parts(&self) -> Vec<String> {
        let (store, bucket) = self.store_and_path();
        [store.to_owned(), bucket].into_iter().chain(self.segments.iter().cloned()).collect()
    }

    /// Returns the *spellings* of the location: its parts as written and, if this makes a
    /// difference, its parts with percent-encoded characters decoded. All spellings may name the
    /// same files. Only some clients decode locations, so two locations overlap if any of their
    /// spellings overlap. All spellings have the same number of parts.
    pub fn spellings(&self) -> Vec<Vec<String>> {
        let parts = self.parts();
        let decoded = |part: &String| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let decoded: Vec<_> = parts.iter().map(decoded).collect();
        if decoded == parts { vec![parts] } else { vec![decoded, parts] }
    }

    /// Whether this location, in any spelling, is `around` or below it.
    pub fn may_be_within(&self, around: &Self) -> bool {
        let around = around.spellings();
        self.spellings().iter().any(|parts| around.iter().any(|around| parts.starts_with(around)))
    }

    /// Returns the kind of store and the bucket. All of Azure's schemes name the same containers,
    /// so they count as one kind. Accounts are not distinguished.
    fn store_and_path(&self) -> (&str, String) {
        let split = self.authority.split_once('@');
        let (store, bucket) = match self.scheme.as_str() {
            scheme if AZURE.contains(&scheme) || AZURE_OF_HADOOP.contains(&scheme) => {
                (AZURE[0], split.map(|(container, _account)| container))
            }
            "gcs" => ("gs", split.map(|(_user, bucket)| bucket)),
            scheme => (scheme, split.map(|(_user, bucket)| bucket)),
        };
        (store, bucket.unwrap_or(&self.authority).to_ascii_lowercase())
    }

    /// The scheme in its canonical form.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Whether the location is on the local file system.
    pub fn is_local(&self) -> bool {
        self.scheme == "file"
    }

    /// The part between the scheme and the path: the bucket.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Length of the longest name in the path, in bytes.
    pub(crate) fn part_bytes_max(&self) -> usize {
        self.segments.iter().map(String::len).max().unwrap_or(0)
    }

    /// Number of names in the path.
    pub fn depth(&self) -> usize {
        self.segments.len()
    }

    /// The last name in the path. `None` for the root of a bucket or file system.
    pub fn name(&self) -> Option<&str> {
        self.segments.last().map(String::as_str)
    }

    /// The path below the root of the bucket or file system, without a leading slash.
    pub fn path(&self) -> String {
        self.segments.join("/")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.authority, self.path())
    }
}

fn is_ambiguous(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    AMBIGUOUS.iter().any(|encoded| lower.contains(encoded))
}

fn split(text: &str) -> Option<(String, String, &str)> {
    if text.starts_with('/') {
        return Some(("file".to_owned(), String::new(), text));
    }
    let (scheme, rest) = text.split_once(':')?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        // Hadoop's names for the same store.
        "s3a" | "s3n" => "s3".to_owned(),
        other => other.to_owned(),
    };
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let needs_bucket = !matches!(scheme.as_str(), "file" | "memory");
            if needs_bucket == authority.is_empty() {
                return None;
            }
            Some((scheme, authority.to_owned(), path))
        }
        // Hadoop writes local files with one slash.
        None if scheme == "file" && rest.starts_with('/') => Some((scheme, String::new(), rest)),
        None => None,
    }
}

/// Shortens a string for an error message.
fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(child: &str, root: &str) -> bool {
        let root = Location::parse(root).expect("the root is valid");
        Location::parse(child).is_ok_and(|child| child.is_within(&root))
    }

    #[test]
    fn location_below_a_root_is_within_it() {
        assert!(within("s3://b/w/ns/t", "s3://b/w"));
        assert!(within("s3a://b/w/ns/t/", "s3://b/w/"));
        assert!(within("s3://b/w", "s3://b/w"));
        assert!(within("file:/w/t", "file:///w"));
        assert!(within("/w/t", "file:///w"));
        assert!(within("memory:///w/a b/ü", "memory:///w"));
    }

    #[test]
    fn location_elsewhere_or_ambiguous_is_not_within() {
        for child in [
            "s3://b/w2/t",
            "s3://b/wt",
            "s3://other/w/t",
            "gs://b/w/t",
            "s3://b/w/../x",
            "s3://b/w/./t",
            "s3://b/w//t",
            "s3://b/w/%2e%2e/x",
            "s3://b/w/..%2Fx",
            "s3://b/w/t?versionId=1",
            "s3://b/w/t#x",
            "s3://b/w\\t",
            "s3://b/w/\u{1f}",
            "s3://user@b/w/t",
            "s3:/b/w/t",
            "w/t",
            "",
            "s3",
            "://b/w",
        ] {
            assert!(!within(child, "s3://b/w"), "{child}");
        }
        assert!(!within("file://host/w/t", "file:///w"));
    }
}
