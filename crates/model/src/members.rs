//! Reads the members of a JSON object by name.
//!
//! If a member is missing or invalid, every method errors with a refusal that names the member. The
//! message of the refusal is that of the reference implementation ("Cannot parse missing int:
//! schema-id"), because clients may test for it. Two types implement the methods: a parsed `Map`
//! for small and deep objects, and `RawMembers` for objects with large members (snapshots) that
//! stay unparsed.
//!
//! Every `Value` comes from `serde_json`'s parser, which limits the nesting to 128. This limit also
//! bounds the depth of every recursive function in this crate. Code must not parse nested
//! `RawValue`s recursively, because the limit applies to each parse separately.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// Maximum number of characters of a client's value that a refusal repeats.
const BRIEF_CHARS_MAX: usize = 200;

/// Maximum nesting of objects and arrays in JSON that is stored as it is. Known members need only 4
/// levels.
const VERBATIM_DEPTH_MAX: usize = 32;

/// Shortens a string to the length that a refusal may repeat.
pub fn brief(text: impl ToString) -> String {
    let text = text.to_string();
    match text.char_indices().nth(BRIEF_CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A JSON object, read by member name. A member that is `null` counts as absent.
pub(super) trait Members {
    /// Returns the member with this name. `None` if it is absent or `null`.
    fn member(&self, name: &str) -> Result<Option<Cow<'_, Value>>, Refusal>;

    /// Returns a required member of any type.
    fn required(&self, name: &str) -> Result<Cow<'_, Value>, Refusal> {
        self.member(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing field: {name}")))
    }

    fn i32(&self, name: &str) -> Result<i32, Refusal> {
        self.opt_i32(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing int: {name}")))
    }

    fn opt_i32(&self, name: &str) -> Result<Option<i32>, Refusal> {
        let Some(value) = self.member(name)? else { return Ok(None) };
        match value.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_type("Cannot parse to an integer value", name, &value)),
        }
    }

    fn i64(&self, name: &str) -> Result<i64, Refusal> {
        self.opt_i64(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing long: {name}")))
    }

    fn opt_i64(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.member(name)? else { return Ok(None) };
        match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_type("Cannot parse to a long value", name, &value)),
        }
    }

    fn bool(&self, name: &str) -> Result<bool, Refusal> {
        let Some(value) = self.member(name)? else {
            return Err(Refusal::invalid(format!("Cannot parse missing boolean: {name}")));
        };
        value.as_bool().ok_or_else(|| wrong_type("Cannot parse to a boolean value", name, &value))
    }

    fn string(&self, name: &str) -> Result<String, Refusal> {
        self.opt_string(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing string: {name}")))
    }

    fn opt_string(&self, name: &str) -> Result<Option<String>, Refusal> {
        match self.member(name)? {
            None => Ok(None),
            Some(Cow::Owned(Value::String(text))) => Ok(Some(text)),
            Some(Cow::Borrowed(Value::String(text))) => Ok(Some(text.clone())),
            Some(value) => Err(wrong_type("Cannot parse to a string value", name, &value)),
        }
    }

    fn string_map(&self, name: &str) -> Result<BTreeMap<String, String>, Refusal> {
        self.opt_string_map(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing map: {name}")))
    }

    fn opt_string_map(&self, name: &str) -> Result<Option<BTreeMap<String, String>>, Refusal> {
        let Some(value) = self.member(name)? else { return Ok(None) };
        let Value::Object(members) = value.as_ref() else {
            return Err(wrong_type("Cannot parse string map from non-object value", name, &value));
        };
        let read = |(key, value): (&String, &Value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            other => Err(wrong_type("Cannot parse to a string value", &brief(key), other)),
        };
        members.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    fn i32_list(&self, name: &str) -> Result<Vec<i32>, Refusal> {
        list(name, &*self.required_list(name)?, "integer from non-int value", |value| {
            value.as_i64().and_then(|number| i32::try_from(number).ok())
        })
    }

    fn i64_list(&self, name: &str) -> Result<Vec<i64>, Refusal> {
        list(name, &*self.required_list(name)?, "long from non-long value", Value::as_i64)
    }

    fn string_list(&self, name: &str) -> Result<Vec<String>, Refusal> {
        list(name, &*self.required_list(name)?, "string from non-text value", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    /// Returns a required member that is an array.
    fn required_list(&self, name: &str) -> Result<Cow<'_, Value>, Refusal> {
        let value = self
            .member(name)?
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing list: {name}")))?;
        if value.is_array() {
            Ok(value)
        } else {
            Err(wrong_type("Cannot parse JSON array from non-array value", name, &value))
        }
    }
}

impl Members for Map<String, Value> {
    fn member(&self, name: &str) -> Result<Option<Cow<'_, Value>>, Refusal> {
        Ok(self.get(name).filter(|value| !value.is_null()).map(Cow::Borrowed))
    }
}

/// An object whose members are unparsed.
pub(super) struct RawMembers<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> RawMembers<'a> {
    /// Splits the object `json`. The refusal calls the object `what`.
    pub(super) fn parse(what: &str, json: &'a str) -> Result<Self, Refusal> {
        match serde_json::from_str(json) {
            Ok(members) => Ok(Self(members)),
            Err(error) if error.is_data() => Err(Refusal::invalid(format!(
                "Cannot parse {what} from a non-object: {}",
                brief(json)
            ))),
            Err(error) => Err(Refusal::invalid(format!("Cannot parse {what}: {error}"))),
        }
    }

    /// Returns the JSON of a member. `None` if it is absent or `null`.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// Returns the JSON of a required member.
    pub(super) fn required_raw(&self, name: &str) -> Result<&'a RawValue, Refusal> {
        self.raw(name)
            .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing field: {name}")))
    }

    /// Returns the JSON of an array's elements. `None` if the member is absent or `null`.
    pub(super) fn raw_list(&self, name: &str) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        match serde_json::from_str(raw.get()) {
            Ok(elements) => Ok(Some(elements)),
            Err(_) => Err(Refusal::invalid(format!(
                "Cannot parse {name} from non-array: {}",
                brief(raw.get())
            ))),
        }
    }

    /// Returns the names and JSON of all members, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), *raw))
    }
}

impl Members for RawMembers<'_> {
    fn member(&self, name: &str) -> Result<Option<Cow<'_, Value>>, Refusal> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        parse_value(name, raw).map(|value| Some(Cow::Owned(value)))
    }
}

/// Parses the JSON of the member `name` completely.
pub(super) fn parse_value(name: &str, raw: &RawValue) -> Result<Value, Refusal> {
    serde_json::from_str(raw.get())
        .map_err(|error| Refusal::invalid(format!("Cannot parse {name}: {error}")))
}

/// Returns `value` as an object. The refusal calls the value `what`.
pub(super) fn object<'a>(what: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Refusal> {
    value.as_object().ok_or_else(|| {
        Refusal::invalid(format!("Cannot parse {what} from a non-object: {}", brief(value)))
    })
}

/// Returns the elements of an array; an empty slice for any other value.
pub(super) fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn list<T>(
    name: &str,
    value: &Value,
    problem: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, Refusal> {
    let read = |element: &Value| {
        read(element).ok_or_else(|| {
            Refusal::invalid(format!("Cannot parse {problem} in {name}: {}", brief(element)))
        })
    };
    elements(value).iter().map(read).collect()
}

fn wrong_type(problem: &str, name: &str, value: &Value) -> Refusal {
    Refusal::invalid(format!("{problem}: {name}: {}", brief(value)))
}

/// Returns the JSON of an object without white space between its tokens, and without members that
/// are `null`. The result is written verbatim into every later document.
///
/// Members that are `null` are removed because the parsers of the reference implementation refuse
/// some of them, such as `parent-snapshot-id`. JSON that one client writes must not make the table
/// unreadable for another client. Therefore, JSON that is nested too deep for readers is rejected,
/// too.
pub(super) fn compact<'a>(what: &str, raw: &'a RawValue) -> Result<Cow<'a, RawValue>, Refusal> {
    let text = raw.get();
    let shape = Shape::of(text);
    if shape.depth > VERBATIM_DEPTH_MAX {
        return Err(Refusal::invalid(format!(
            "Cannot parse {what}: nested more than {VERBATIM_DEPTH_MAX} deep"
        )));
    }
    if !shape.has_blanks && !text.contains(":null") {
        return Ok(Cow::Borrowed(raw));
    }
    let mut value = parse_value(what, raw)?;
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    serde_json::value::to_raw_value(&value)
        .map(Cow::Owned)
        .map_err(|error| Refusal::invalid(format!("Cannot parse {what}: {error}")))
}

/// Properties of a JSON string. A scan of its tokens determines them.
struct Shape {
    /// Whether there is white space between the tokens.
    has_blanks: bool,
    /// Maximum nesting of objects and arrays.
    depth: usize,
}

impl Shape {
    fn of(json: &str) -> Self {
        let mut shape = Self { has_blanks: false, depth: 0 };
        let mut open: usize = 0;
        let mut in_string = false;
        let mut escaped = false;
        for byte in json.bytes() {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b' ' | b'\n' | b'\r' | b'\t' => shape.has_blanks = true,
                b'{' | b'[' => {
                    open += 1;
                    shape.depth = shape.depth.max(open);
                }
                b'}' | b']' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        shape
    }
}
