//! Policies in the documentation are valid and behave as described.

use std::path::{Path, PathBuf};

use slateberg_authz::expectations::Expectations;

use crate::support::{defaults_and, only};

/// Returns the code blocks of a document in order, each with its language.
fn blocks(document: &str) -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(file).expect("the document can be read");
    let mut blocks = Vec::new();
    let mut parts = text.split("\n```");
    let _introduction = parts.next();
    while let Some(block) = parts.next() {
        let (language, code) = block.split_once('\n').expect("a block has lines");
        blocks.push((language.to_owned(), code.to_owned()));
        assert!(parts.next().is_some(), "the block is closed");
    }
    blocks
}

#[test]
fn every_policy_in_the_manual_is_valid_and_decides_as_the_manual_says() {
    let mut policies = defaults_and("", &[]);
    let (mut shown, mut tested) = (0, 0);
    for (language, code) in blocks("docs/authorization.md") {
        match language.as_str() {
            "cedar" => {
                assert_eq!(only(&code).warnings(), [], "{code}");
                policies = defaults_and(&code, &[]);
                shown += 1;
            }
            "toml" => {
                let expectations: Expectations = toml::from_str(&code).expect("it is well-formed");
                let scenario = expectations.scenario().expect("it fits together");
                let outcomes = scenario.run(&policies).expect("it fits the policies");
                let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
                assert!(failed.is_empty(), "{failed:#?}");
                tested += 1;
            }
            other => assert_eq!(other, "sh", "{code}"),
        }
    }
    assert!(shown >= 5);
    assert_eq!(shown, tested, "every policy is followed by its expected decisions");
}

#[test]
fn every_file_of_default_policies_is_built_in() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/default");
    let entries = std::fs::read_dir(directory).expect("the directory can be read");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the entry can be read").path()).collect();
    files.sort();
    let built_in = slateberg_authz::bundled::default_policies();
    assert_eq!(files.len(), built_in.len());
    for (file, built_in) in files.iter().zip(&built_in) {
        assert!(file.ends_with(Path::new(&built_in.name)), "{}", built_in.name);
        assert_eq!(std::fs::read_to_string(file).expect("it can be read"), built_in.text);
    }
}
