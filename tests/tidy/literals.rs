//! String literals of Rust code.

use std::iter::Peekable;
use std::str::Chars;

/// Returns the string literals of code, with line breaks for their escapes.
pub(super) fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|c| *c == '\n');
            }
            '"' => found.push(escaped(&mut rest)),
            'r' if !previous.is_alphanumeric() && matches!(rest.peek(), Some('"' | '#')) => {
                found.extend(raw(&mut rest));
            }
            '\'' => skip_character(&mut rest),
            _ => {}
        }
        previous = c;
    }
    found
}

/// Reads a literal after its opening quotation mark.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut literal = String::new();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' => match rest.next() {
                Some('n') => literal.push('\n'),
                // The literal continues at the next word.
                Some('\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                Some(other) => literal.push(other),
                None => break,
            },
            _ => literal.push(c),
        }
    }
    literal
}

/// Reads a raw literal after its `r`. Returns `None` for a raw identifier.
fn raw(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut end = String::from("\"");
    while rest.next_if_eq(&'#').is_some() {
        end.push('#');
    }
    rest.next_if_eq(&'"')?;
    let mut literal = String::new();
    for c in rest.by_ref() {
        literal.push(c);
        if literal.ends_with(&end) {
            literal.truncate(literal.len() - end.len());
            break;
        }
    }
    Some(literal)
}

/// Skips the rest of a character literal. A lifetime has no closing mark.
fn skip_character(rest: &mut Peekable<Chars<'_>>) {
    let mut ahead = rest.clone();
    let is_escape = ahead.next() == Some('\\');
    if is_escape || ahead.next() == Some('\'') {
        rest.next();
        if is_escape {
            rest.next();
        }
        rest.by_ref().find(|c| *c == '\'');
    }
}

#[test]
fn literals_are_read_and_characters_and_comments_are_not() {
    let code = r##"let a: &'static str = "one \
        two"; let b = '"'; let c = '\''; // "three"
        let d = r#"four "five""#; let e = r"six"; let r#type = b"\"seven\"\n";"##;
    assert_eq!(literals(code), ["one two", "four \"five\"", "six", "\"seven\"\n"]);
}
