//! Snapshots of JSON that do not depend on the order of members.

/// Sorts the members of values in snapshots until this is dropped.
#[must_use = "the members are sorted until this is dropped"]
pub fn sorted_members() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.set_sort_maps(true);
    settings.bind_to_scope()
}
