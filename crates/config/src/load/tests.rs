//! Loading of settings: sources, precedence and error messages.

use std::io::Write;

use super::*;
use slateberg_telemetry::settings::Format;

fn load_text(toml: &str) -> Result<Settings, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(toml.as_bytes()).expect("it can be written");
    let sources = Sources { config: Some(file.path().to_owned()) };
    load(&sources).map_err(|error| error.to_string())
}

#[test]
fn a_file_wins_over_the_defaults() {
    let settings = load_text("[log]\nformat = \"json\"\n").expect("valid settings");
    assert_eq!(settings.log.format, Format::Json);
    assert_eq!(settings.server, Settings::default().server);
}

#[test]
fn default_file_equals_the_built_in_defaults() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = Sources { config: Some(root.join("config/default.toml")) };
    let mut settings = load(&sources).expect("valid settings");
    settings.ambient_options.clear();
    assert_eq!(settings, Settings::default());

    // The file contains every key of the serialized defaults.
    let text = std::fs::read_to_string(root.join("config/default.toml")).expect("it is there");
    let defaults =
        figment::value::Value::serialize(Settings::default()).expect("settings are data");
    for key in keys_of(&defaults) {
        let spellings = [format!("{key} = "), format!("{key}]"), format!("[{key}.")];
        let stands = spellings.iter().any(|spelling| text.contains(spelling));
        assert!(stands, "config/default.toml lacks {key}");
    }
}

fn keys_of(value: &figment::value::Value) -> Vec<String> {
    let Some(dict) = value.as_dict() else { return Vec::new() };
    dict.iter().flat_map(|(key, value)| [vec![key.clone()], keys_of(value)].concat()).collect()
}

#[test]
fn the_example_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = Sources { config: Some(root.join("config/production.example.toml")) };
    let settings = load(&sources).expect("valid settings");
    assert_eq!(settings.warehouses.keys().collect::<Vec<_>>(), ["archive", "lake"]);
}

#[test]
fn default_warehouse_exists_unless_another_is_configured() {
    let lake = "default_warehouse = \"lake\"\n[warehouses.lake]";
    for (text, expected) in [
        ("", vec!["default"]),
        ("[warehouses.lake]", vec!["default", "lake"]),
        (lake, vec!["lake"]),
        (&format!("{lake}\n[warehouses.default]"), vec!["default", "lake"]),
    ] {
        let settings = load_text(text).expect("valid settings");
        assert_eq!(settings.warehouses.keys().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_file() {
    let error = load_text("[server]\nlisen = \"127.0.0.1:1\"\n").expect_err("a typing error");
    assert!(error.contains("server"), "{error}");
    assert!(error.contains("lisen"), "{error}");
    assert!(error.contains("listen"), "what was expected: {error}");
    assert!(error.contains(".tmp"), "the file: {error}");
}

#[test]
fn wrong_value_is_reported_with_the_expected_type() {
    let error = load_text("[catalog]\npage_size_max = \"many\"\n").expect_err("not a number");
    assert!(error.contains("catalog.page_size_max"), "{error}");
    assert!(error.contains("many"), "{error}");
}

#[test]
fn missing_settings_file_is_an_error() {
    let sources = Sources { config: Some("no/such/file.toml".into()) };
    assert!(load(&sources).is_err());
}

#[test]
fn all_problems_are_reported_and_the_rest_is_loaded() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = "data_dirr = \"x\"\n[catalog]\npage_size_max = \"many\"\nname_bytes_max = 7\n\
                [warehouses.\"a.b\"]\nlocation = 1\n";
    file.write_all(text.as_bytes()).expect("it can be written");
    let read = read(&Sources { config: Some(file.path().to_owned()) });
    assert_eq!(read.settings.catalog.name_bytes_max, 7);
    let mut found: Vec<_> = read.problems.iter().map(|it| (it.key.as_str(), line_of(it))).collect();
    found.sort_unstable();
    let keys = [("catalog.page_size_max", 3), ("data_dirr", 1), ("warehouses.a.b.location", 6)];
    assert_eq!(found, keys);
    // Problems that later checks find also contain the position of the key.
    let problem = read.problem(InvalidSetting::new("warehouses.a.b", "no"));
    assert_eq!(line_of(&problem), 5);
    let problem = read.problem(InvalidSetting::new("catalog.name_bytes_max.more", "no"));
    assert_eq!(line_of(&problem), 4, "the nearest that stands there");
    let problem = read.problem(InvalidSetting::new("server.listen", "no"));
    assert_eq!(problem.source, SettingSource::Default);
}

fn line_of(problem: &Problem) -> usize {
    match problem.source {
        SettingSource::File { line: Some(line), .. } => line,
        _ => panic!("{problem}"),
    }
}
