//! Figures in the documentation name the commit at which they were measured.

use std::fs;

use super::root;

/// Returns the commits that a section of `docs/benchmarks.md` names.
fn commits(section: &str) -> Vec<&str> {
    let named = section.split("commit `").skip(1);
    named.filter_map(|rest| rest.split_once('`')).map(|(commit, _)| commit).collect()
}

#[test]
fn sections_with_figures_name_the_measured_commit() {
    let page = fs::read_to_string(root().join("docs/benchmarks.md")).expect("the page can be read");
    let (mut sections, mut runs) = (0, 0);
    for section in page.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        // The last sections describe the methods.
        if ["Under load", "Measuring", "Comparison with other servers"].contains(&title) {
            continue;
        }
        sections += 1;
        let commits = commits(section);
        assert!(!commits.is_empty(), "{title}: add `Measured at commit `...` (date).`");
        for path in section.split('`').filter(|it| it.starts_with("benches/results/")) {
            let run = fs::read_to_string(root().join(path)).expect("the run can be read");
            let machine = run.lines().next().unwrap_or_default();
            let is_named =
                commits.iter().any(|it| machine.contains(&format!("\"revision\": \"{it}\"")));
            assert!(is_named, "{title}: {path} is a run of another commit: {machine}");
            runs += 1;
        }
    }
    assert!(sections >= 5 && runs >= 2, "the page has sections and runs");
}
