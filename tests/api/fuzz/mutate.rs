//! Mutations of a valid request: of its JSON, its bytes, its strings.

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// Returns an unusual value.
fn odd_value(rng: &mut StdRng) -> Value {
    match rng.random_range(0..24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(i32::MAX),
        5 => json!(i64::from(i32::MAX) + 1),
        6 => json!(i64::MIN),
        7 => json!(i64::MAX),
        8 => json!(u64::MAX),
        9 => json!(1e308),
        10 => json!(0.5),
        11 => json!(""),
        12 => json!("a"),
        13 => json!("x".repeat(rng.random_range(1..3000))),
        14 => json!("\u{0}\u{1f}\n"),
        15 => json!("名前🦀\u{202e}"),
        16 => json!([]),
        17 => json!({}),
        18 => json!(["a", 1, null]),
        19 => nested(rng.random_range(2..200)),
        20 => json!("memory:///warehouse/../state"),
        21 => json!("memory:///warehouse/x"),
        22 => json!("00000000-0000-0000-0000-000000000000"),
        _ => json!(rng.random_range(-3..1200)),
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, level| match level % 2 {
        0 => json!([inner]),
        _ => json!({ "type": "list", "element": inner, "fields": [] }),
    })
}

/// Mutates a value at one position.
pub(super) fn break_json(rng: &mut StdRng, value: &mut Value) {
    // Descends to a random position, with a chance to stop at every level.
    if rng.random_ratio(5, 6) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                let at = rng.random_range(0..members.len());
                if let Some((_, member)) = members.iter_mut().nth(at) {
                    return break_json(rng, member);
                }
            }
            Value::Array(elements) if !elements.is_empty() => {
                let at = rng.random_range(0..elements.len());
                return break_json(rng, &mut elements[at]);
            }
            _ => {}
        }
    }
    match (value, rng.random_range(0..6)) {
        (Value::Object(members), 0..2) if !members.is_empty() => {
            let at = rng.random_range(0..members.len());
            if let Some(name) = members.keys().nth(at).cloned() {
                members.remove(&name);
            }
        }
        (Value::Object(members), 2..4) => {
            let names = ["unknown", "", "type", "action", "location", "snapshot-id", "\u{0}"];
            let name = names[rng.random_range(0..names.len())];
            members.insert(name.to_owned(), odd_value(rng));
        }
        (Value::Array(elements), 0..2) if !elements.is_empty() => {
            let element = elements[rng.random_range(0..elements.len())].clone();
            elements.extend(vec![element; rng.random_range(1..20)]);
        }
        (Value::Array(elements), 2) if !elements.is_empty() => {
            elements.remove(rng.random_range(0..elements.len()));
        }
        (Value::Array(elements), 3) => elements.push(odd_value(rng)),
        (Value::String(text), 0..3) => break_text(rng, text),
        (value, _) => *value = odd_value(rng),
    }
}

/// Mutates a body's bytes.
pub(super) fn break_bytes(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    let at = rng.random_range(0..=bytes.len());
    match rng.random_range(0..8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(..at)),
        2 => bytes.insert(at, rng.random_range(0..=255)),
        3 => bytes.extend_from_slice(&bytes.clone()),
        4 => drop(bytes.splice(at..at, "[".repeat(5000).into_bytes())),
        5 => *bytes = (0..at).map(|_| rng.random_range(0..=255)).collect(),
        // Longer than the limit.
        6 if rng.random_ratio(1, 10) => bytes.resize(100 << 10, b' '),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.random_range(0..8);
            }
        }
    }
}

/// Mutates a string: a path, a query, a header, a name.
pub(super) fn break_text(rng: &mut StdRng, text: &mut String) {
    let pieces = [
        "/",
        "%2F",
        "%1F",
        "%00",
        "..",
        "/../",
        "%2e%2e",
        "%",
        "%FF",
        "+",
        "%20",
        "?",
        "#",
        "&",
        "=",
        "\\",
        "ü",
        "名",
        " ",
        "\u{1f}",
        "default",
        "namespaces",
        "tables",
        ":",
        "@",
        "-",
        "0",
    ];
    let part = pieces[rng.random_range(0..pieces.len())];
    let positions: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let at = positions[rng.random_range(0..positions.len())];
    match rng.random_range(0..5) {
        0 => text.truncate(at),
        1 => text.insert_str(at, &part.repeat(rng.random_range(2..300))),
        2 => *text = text.replace('/', part),
        _ => text.insert_str(at, part),
    }
}
