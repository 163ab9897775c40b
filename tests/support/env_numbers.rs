//! Numbers in environment variables, for longer runs of a test or a repetition.

/// Returns the number in this environment variable, or the default.
pub fn number_from_env(name: &str, default: u64) -> u64 {
    let Some(value) = std::env::var_os(name) else { return default };
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{name}: expected a number, got {}", value.display()))
}

/// Returns the seed in this environment variable, or a new one.
pub fn seed(name: &str) -> u64 {
    number_from_env(name, rand::random_range(0..1_000_000_000))
}
