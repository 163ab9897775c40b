//! Parses the body of `DeleteObjects`.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::request::SignError;

/// Maximum number of keys in a request, as in S3.
const KEYS_MAX: usize = 1000;

/// Returns the keys in a body. Rejects a body with anything except keys, such as a version.
pub(super) fn keys_of(body: &str) -> Result<Vec<String>, SignError> {
    let wrong =
        || SignError::Invalid("Invalid body: expected Delete with an Object for each Key".into());
    let mut reader = Reader::from_str(body);
    let mut path: Vec<String> = Vec::new();
    let mut keys = Vec::new();
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|_| wrong())? {
            Event::Start(element) => {
                let name = element.local_name();
                let name = std::str::from_utf8(name.as_ref()).map_err(|_| wrong())?;
                path.push(name.to_owned());
                let path: Vec<_> = path.iter().map(String::as_str).collect();
                match path[..] {
                    ["Delete"] | ["Delete", "Quiet"] => {}
                    ["Delete", "Object"] => {}
                    ["Delete", "Object", "Key"] => text.clear(),
                    _ => return Err(wrong()),
                }
            }
            Event::Text(part) => {
                text.push_str(&part.decode().map_err(|_| wrong())?);
            }
            Event::GeneralRef(reference) => text.push(character(&reference).ok_or_else(wrong)?),
            Event::End(_) => {
                if path.last().is_some_and(|name| name == "Key") {
                    keys.push(std::mem::take(&mut text));
                }
                path.pop();
            }
            Event::Decl(_) => {}
            Event::Eof => break,
            _ => return Err(wrong()),
        }
    }
    match keys.len() {
        1..=KEYS_MAX if path.is_empty() => Ok(keys),
        _ => Err(wrong()),
    }
}

/// Returns the character of a reference such as `&amp;` or `&#x2F;`.
fn character(reference: &quick_xml::events::BytesRef<'_>) -> Option<char> {
    if let Some(c) = reference.resolve_char_ref().ok()? {
        return Some(c);
    }
    match &*reference.decode().ok()? {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_the_store_reads_them() {
        let body = "<?xml version=\"1.0\"?>\n<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Object><Key>w/t/a&amp;b</Key></Object>\n<Object><Key>w/t/&#x2e;&#46;/x</Key></Object>\
                    <Quiet>true</Quiet></Delete>";
        assert_eq!(keys_of(body).expect("it is good"), ["w/t/a&b", "w/t/../x"]);
    }

    #[test]
    fn ambiguous_uri_is_rejected() {
        for body in [
            "",
            "<Delete/>",
            "<Delete></Delete>",
            "<Delete><Object><Key>w/t/a</Key><VersionId>1</VersionId></Object></Delete>",
            "<Delete><Object><Key><![CDATA[w/t/a]]></Key></Object></Delete>",
            "<Delete><Object><Key>w/t/<!-- -->a</Key></Object></Delete>",
            "<!DOCTYPE d [<!ENTITY e \"w\">]><Delete><Object><Key>&e;</Key></Object></Delete>",
            "<Delete><Object><Key>&e;</Key></Object></Delete>",
            "<Delete><Object><Key>w/t/a</Key></Object>",
            "<Other><Object><Key>w/t/a</Key></Object></Other>",
        ] {
            assert!(keys_of(body).is_err(), "{body}");
        }
    }
}
