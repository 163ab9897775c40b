//! Logs go to standard error, so that what a command prints stays its own.

#[cfg(not(feature = "console"))]
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

#[cfg(not(feature = "console"))]
use super::json_lines::JsonLines;
#[cfg(not(feature = "console"))]
use super::settings::Format;
use super::settings::Settings;

/// Why logging cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("log.level: {0}")]
pub struct InvalidLevel(String);

/// Refuses settings by which logging cannot begin.
pub fn check(settings: &Settings) -> Result<(), InvalidLevel> {
    filter(settings).map(|_| ())
}

fn filter(settings: &Settings) -> Result<EnvFilter, InvalidLevel> {
    EnvFilter::try_new(&settings.level).map_err(|error| InvalidLevel(error.to_string()))
}

/// Begins to log. What is logged before is lost.
pub fn init(settings: &Settings) -> Result<(), InvalidLevel> {
    let filter = filter(settings)?;
    #[cfg(feature = "console")]
    let begun = super::console::begin(settings, filter);
    #[cfg(not(feature = "console"))]
    let begun = begin(settings, filter);
    // A second server in the same process logs where the first one does.
    if begun.is_err() {
        tracing::debug!("logging has begun already");
    }
    Ok(())
}

#[cfg(not(feature = "console"))]
fn begin(
    settings: &Settings,
    filter: EnvFilter,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        // A line that cannot be written, as to a file on a full disk, is lost. To report that on standard
        // error as well would panic, since that is where it cannot be written.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match settings.format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().event_format(JsonLines).try_init(),
    }
}
