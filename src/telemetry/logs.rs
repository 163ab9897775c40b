//! Logs go to standard error, so that what a command prints stays its own.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::settings::{Format, Settings};

/// Why logging cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("log.level: {0}")]
pub struct InvalidLevel(String);

/// Begins to log. What is logged before is lost.
pub fn init(settings: &Settings) -> Result<(), InvalidLevel> {
    let filter = EnvFilter::try_new(&settings.level).map_err(|e| InvalidLevel(e.to_string()))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let begun = match settings.format {
        Format::Text => builder.try_init(),
        // The span is the request's, if its trace is kept: it has the ids.
        Format::Json => builder.json().with_span_list(false).try_init(),
    };
    // A second server in the same process logs where the first one does.
    if begun.is_err() {
        tracing::debug!("logging has begun already");
    }
    Ok(())
}
