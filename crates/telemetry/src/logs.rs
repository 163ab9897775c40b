//! Logs go to standard error, so that what a command prints stays its own.

#[cfg(not(feature = "console"))]
use std::io::IsTerminal;

#[cfg(not(feature = "console"))]
use tracing_subscriber::EnvFilter;

use super::directives;
#[cfg(not(feature = "console"))]
use super::json_lines::JsonLines;
#[cfg(not(feature = "console"))]
use super::settings::Format;
use super::settings::Settings;
use slateberg_base::setting::InvalidSetting;

/// Rejects settings that would turn the log off by mistake.
pub fn check(settings: &Settings) -> Result<(), InvalidSetting> {
    directives::parse(&settings.level).map(|_| ())
}

/// Starts the log. Earlier events are lost.
pub fn init(settings: &Settings) -> Result<(), InvalidSetting> {
    let filter = directives::parse(&settings.level)?;
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
