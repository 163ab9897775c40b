//! The names of types in TOML, for messages. They replace the names of the deserialization library.

use figment::error::Actual;

/// Returns the message for a value of the wrong type. Repeats the value only if `shown`.
pub(super) fn mismatch(actual: &Actual, expected: &str, shown: bool) -> String {
    let expected_name = expected_type(expected, actual);
    if shown {
        format!("expected {expected_name}, got {}", found(actual))
    } else {
        format!("expected {expected_name}")
    }
}

fn expected_type(expected: &str, actual: &Actual) -> String {
    let is_unsigned = matches!(expected, "usize" | "u8" | "u16" | "u32" | "u64" | "u128");
    let is_signed = matches!(expected, "isize" | "i8" | "i16" | "i32" | "i64" | "i128");
    match expected {
        _ if is_unsigned && matches!(actual, Actual::Signed(value) if *value < 0) => {
            "a whole number that is not negative"
        }
        _ if is_unsigned && matches!(actual, Actual::Unsigned(_) | Actual::Signed(_)) => {
            "a smaller whole number"
        }
        _ if is_unsigned || is_signed => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" | "bool" => "true or false",
        "a sequence" => "an array",
        "a map" => "a table",
        "path string" | "a borrowed string" | "str" => "a string",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("enum ") => "a string",
        other => other,
    }
    .to_owned()
}

fn found(actual: &Actual) -> String {
    match actual {
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(value) => format!("the number {value}"),
        Actual::Signed(value) => format!("the number {value}"),
        Actual::Float(value) => format!("the number {value}"),
        Actual::Char(value) => format!("the string \"{value}\""),
        Actual::Str(value) => format!("the string {value:?}"),
        Actual::Seq => "an array".to_owned(),
        Actual::Map | Actual::Enum | Actual::StructVariant => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the correct form of a value of the wrong type, if it is obvious.
pub(super) fn advice(actual: &Actual, expected: &str) -> Option<String> {
    match (actual, expected) {
        (Actual::Str(value), "a sequence") => Some(format!("write [{value:?}]")),
        (Actual::Str(value), "a boolean") if matches!(value.as_str(), "true" | "false") => {
            Some(format!("write {value} without quotes"))
        }
        (Actual::Unsigned(value), "a string") => Some(format!("write \"{value}\"")),
        (Actual::Signed(value), "a string") => Some(format!("write \"{value}\"")),
        (Actual::Bool(value), "a string") => Some(format!("write \"{value}\"")),
        (Actual::Str(value), "usize" | "u32" | "u64") => in_units(value),
        _ => None,
    }
}

/// Returns advice for a size with a unit, such as `4k` or `64MiB`.
fn in_units(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_lowercase();
    let factor = match unit.as_str() {
        "" => return Some(format!("write {number} without quotes")),
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1_u64 << 30,
        _ => return None,
    };
    let number = number.checked_mul(factor)?;
    Some(format!("units are not supported here: write {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_toml() {
        let text = Actual::Str("4k".to_owned());
        let cases = [
            (mismatch(&text, "usize", true), "expected a whole number, got the string \"4k\""),
            (mismatch(&text, "a sequence", true), "expected an array, got the string \"4k\""),
            (mismatch(&text, "struct TlsSettings", false), "expected a table"),
            (mismatch(&Actual::Bool(true), "a map", true), "expected a table, got true"),
            (
                mismatch(&Actual::Signed(-1), "usize", true),
                "expected a whole number that is not negative, got the number -1",
            ),
            (mismatch(&Actual::Seq, "a boolean", true), "expected true or false, got an array"),
        ];
        for (message, expected) in cases {
            assert_eq!(message, expected);
        }
        assert_eq!(
            advice(&text, "usize").as_deref(),
            Some("units are not supported here: write 4096")
        );
        assert_eq!(advice(&text, "a sequence").as_deref(), Some("write [\"4k\"]"));
    }
}
