//! The example runs, and the page on embedding contains its code.

#[path = "../../crates/embedded/examples/embedded.rs"]
#[allow(dead_code, reason = "a test is its own main")]
mod embedded;

/// Returns the Rust code blocks in a page, line by line and without indentation.
fn blocks(page: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while lines.any(|line| line == "```rust") {
        let block = lines.by_ref().take_while(|line| *line != "```");
        blocks.push(block.map(str::trim).collect());
    }
    blocks
}

#[tokio::test]
async fn example_runs() {
    let directory = tempfile::tempdir().expect("there is room");
    embedded::run(directory.path()).await.expect("it runs to its end");
}

#[test]
fn documentation_contains_the_example() {
    let (page, example) = (
        include_str!("../../docs/embedding.md"),
        include_str!("../../crates/embedded/examples/embedded.rs"),
    );
    let example: Vec<_> = example.lines().map(str::trim).collect();
    let blocks = blocks(page);
    assert!(blocks.len() > 4, "the page has code");
    for block in blocks {
        let is_there = example.windows(block.len()).any(|lines| lines == block);
        assert!(is_there, "this is not in the example:\n{}", block.join("\n"));
    }
}
