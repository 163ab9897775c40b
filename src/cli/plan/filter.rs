//! Filters on the command line, in a small subset of SQL.

use serde_json::{Value, json};

/// Maximum depth of parentheses and negations.
const DEPTH_MAX: usize = 32;

/// Parses a filter into an expression of the Iceberg REST specification. A filter that begins with
/// a brace is already such an expression, as JSON.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"));
    }
    let mut parser = Parser { tokens: tokens(text)?, position: 0, depth: 0 };
    let filter = parser.disjunction()?;
    match parser.next() {
        None => Ok(filter),
        Some(token) => Err(format!("unexpected {token}")),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A name or a keyword.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    Literal(Value),
    Symbol(String),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Quoted(text) | Self::Symbol(text) => write!(f, "'{text}'"),
            Self::Literal(value) => write!(f, "{value}"),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\'' | '"' => quoted(rest, first)?,
            '-' | '.' | '0'..='9' => number(rest)?,
            first if is_of_word(first) => {
                let length = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_owned()), length)
            }
            _ => {
                let two =
                    ["<=", ">=", "<>", "!=", "=="].into_iter().find(|two| rest.starts_with(two));
                let length = two.map_or(first.len_utf8(), str::len);
                (Token::Symbol(rest[..length].to_owned()), length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

/// Reads a quoted string, in which a doubled quote represents one quote character.
fn quoted(text: &str, quote: char) -> Result<(Token, usize), String> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != quote {
            content.push(c);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            content.push(quote);
        } else {
            let token = match quote {
                '"' => Token::Quoted(content),
                _ => Token::Literal(json!(content)),
            };
            return Ok((token, at + 1));
        }
    }
    Err(format!("a string has no end: {text}"))
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let is_of_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
    let length = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    let number: serde_json::Number =
        text[..length].parse().map_err(|_| format!("invalid number: {}", &text[..length]))?;
    Ok((Token::Literal(Value::Number(number)), length))
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.position).cloned();
        self.position += 1;
        token
    }

    /// Consumes a keyword or symbol if it is next.
    fn accept(&mut self, expected: &str) -> bool {
        let found = match self.tokens.get(self.position) {
            Some(Token::Word(word)) => word.eq_ignore_ascii_case(expected),
            Some(Token::Symbol(symbol)) => symbol == expected,
            _ => false,
        };
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, expected: &str) -> Result<(), String> {
        match self.accept(expected) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{expected}'"))),
        }
    }

    fn unexpected(&mut self, expected: &str) -> String {
        match self.next() {
            Some(token) => format!("expected {expected}, got {token}"),
            None => format!("expected {expected} at the end"),
        }
    }

    fn disjunction(&mut self) -> Result<Value, String> {
        let mut left = self.conjunction()?;
        while self.accept("or") {
            left = json!({ "type": "or", "left": left, "right": self.conjunction()? });
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Value, String> {
        let mut left = self.negation()?;
        while self.accept("and") {
            left = json!({ "type": "and", "left": left, "right": self.negation()? });
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} levels"));
        }
        let parsed = if self.accept("not") {
            json!({ "type": "not", "child": self.negation()? })
        } else if self.accept("(") {
            let inner = self.disjunction()?;
            self.expect(")")?;
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn predicate(&mut self) -> Result<Value, String> {
        let column = match self.next() {
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => return Ok(json!(true)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => {
                return Ok(json!(false));
            }
            Some(Token::Word(name) | Token::Quoted(name)) => name,
            Some(token) => return Err(format!("expected a column, got {token}")),
            None => return Err("expected a column at the end".to_owned()),
        };
        if self.accept("is") {
            let negated = self.accept("not");
            let kind = match (self.accept("nan"), negated) {
                (true, false) => "is-nan",
                (true, true) => "not-nan",
                (false, negated) => {
                    self.expect("null")?;
                    if negated { "not-null" } else { "is-null" }
                }
            };
            return Ok(json!({ "type": kind, "term": column }));
        }
        let negated = self.accept("not");
        if self.accept("in") {
            let kind = if negated { "not-in" } else { "in" };
            return Ok(json!({ "type": kind, "term": column, "values": self.literals()? }));
        }
        if self.accept("like") {
            let kind = if negated { "not-starts-with" } else { "starts-with" };
            return Ok(json!({ "type": kind, "term": column, "value": self.prefix()? }));
        }
        if negated {
            return Err(self.unexpected("'in' or 'like'"));
        }
        let kinds = [
            ("=", "eq"),
            ("==", "eq"),
            ("!=", "not-eq"),
            ("<>", "not-eq"),
            ("<", "lt"),
            ("<=", "lt-eq"),
            (">", "gt"),
            (">=", "gt-eq"),
        ];
        match kinds.into_iter().find(|(symbol, _)| self.accept(symbol)) {
            Some((_, kind)) => {
                Ok(json!({ "type": kind, "term": column, "value": self.literal()? }))
            }
            None => Err(self.unexpected("a comparison")),
        }
    }

    fn literal(&mut self) -> Result<Value, String> {
        match self.next() {
            Some(Token::Literal(value)) => Ok(value),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => Ok(json!(true)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => Ok(json!(false)),
            Some(token) => {
                Err(format!("expected a number or a string in single quotes, got {token}"))
            }
            None => Err("expected a number or a string in single quotes at the end".to_owned()),
        }
    }

    fn literals(&mut self) -> Result<Vec<Value>, String> {
        self.expect("(")?;
        let mut literals = vec![self.literal()?];
        while self.accept(",") {
            literals.push(self.literal()?);
        }
        self.expect(")")?;
        Ok(literals)
    }

    /// Parses a pattern, which must consist of a prefix and one `%`. Returns the prefix.
    fn prefix(&mut self) -> Result<String, String> {
        let pattern = self.literal()?;
        let prefix = pattern.as_str().and_then(|pattern| pattern.strip_suffix('%'));
        let prefix = prefix.filter(|prefix| !prefix.contains(['%', '_']));
        prefix.map(ToOwned::to_owned).ok_or_else(|| {
            format!("expected a pattern with one % at its end, such as 'abc%', got {pattern}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_expressions() {
        let eq =
            |column: &str, value: Value| json!({ "type": "eq", "term": column, "value": value });
        for (text, expected) in [
            ("id = 5", eq("id", json!(5))),
            ("a.b == -1.5", eq("a.b", json!(-1.5))),
            ("\"odd name\" = 'it''s'", eq("odd name", json!("it's"))),
            ("flag = TRUE", eq("flag", json!(true))),
            ("true", json!(true)),
            (r#"{"type":"true"}"#, json!({ "type": "true" })),
            ("x is not null", json!({ "type": "not-null", "term": "x" })),
            ("x IS NaN", json!({ "type": "is-nan", "term": "x" })),
            ("x in (1, 2)", json!({ "type": "in", "term": "x", "values": [1, 2] })),
            ("x not in ('a')", json!({ "type": "not-in", "term": "x", "values": ["a"] })),
            ("x like 'ab%'", json!({ "type": "starts-with", "term": "x", "value": "ab" })),
            ("x>=1", json!({ "type": "gt-eq", "term": "x", "value": 1 })),
            ("x <> 1", json!({ "type": "not-eq", "term": "x", "value": 1 })),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn and_binds_more_tightly_than_or() {
        let filter = parse("a = 1 or b = 2 and not (c = 3 or d = 4)").expect("it is valid");
        assert_eq!(filter["type"], "or");
        assert_eq!(filter["right"]["type"], "and");
        assert_eq!(filter["right"]["right"]["type"], "not");
        assert_eq!(filter["right"]["right"]["child"]["type"], "or");
    }

    #[test]
    fn invalid_filter_is_rejected_with_the_reason() {
        for (text, reason) in [
            ("", "expected a column at the end"),
            ("id", "expected a comparison at the end"),
            ("id = ", "expected a number or a string in single quotes at the end"),
            ("id = x", "got 'x'"),
            ("id = 5 6", "unexpected 6"),
            ("(id = 5", "expected ')' at the end"),
            ("id = 'x", "a string has no end"),
            ("id = 1x", "invalid number: 1x"),
            ("id like 'a%b%'", "one % at its end"),
            ("id not = 5", "expected 'in' or 'like'"),
            ("{", "invalid JSON"),
            (&"(".repeat(100), "more than 32 levels"),
            (&"not ".repeat(100), "more than 32 levels"),
        ] {
            let rejection = parse(text).expect_err("it is invalid");
            assert!(rejection.contains(reason), "{text}: {rejection}");
        }
    }
}
