//! The list of all messages, as a snapshot: its diff shows each change of wording.

use super::literals::literals;
use super::{is_test_file, sources};

/// Literals of fewer words are names, formats and values.
const WORDS_MIN: usize = 3;

fn is_message(literal: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(char::is_ascii_alphabetic).count() > 1;
    literal.split_whitespace().filter(is_word).count() >= WORDS_MIN
}

#[test]
fn every_error_and_log_message_is_as_in_the_snapshot() {
    let mut catalogue = String::new();
    let mut sources = sources();
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    for source in sources.iter().filter(|it| !is_test_file(&it.name)) {
        let mut messages = literals(&source.code().collect::<Vec<_>>().join("\n"));
        messages.retain(|literal| is_message(literal));
        if messages.is_empty() {
            continue;
        }
        catalogue += &format!("{}\n", source.name);
        for message in messages {
            catalogue += &format!("    {}\n", message.replace('\n', "\\n"));
        }
    }
    insta::assert_snapshot!(catalogue);
}
