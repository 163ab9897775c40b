//! What tokio-console asks of a running server, beside its log. Only in builds with the feature `console`.

use std::io::IsTerminal;

use console_subscriber::ConsoleLayer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::settings::{Format, Settings};

/// Begins to log, and to answer tokio-console: where `TOKIO_CONSOLE_BIND` says, or at 127.0.0.1:6669.
pub(super) fn begin(settings: &Settings, filter: EnvFilter) -> Result<(), TryInitError> {
    let lines = fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let lines = match settings.format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().with_span_list(false).boxed(),
    };
    // What is logged is for the filter to say; the console sees everything that Tokio tells.
    let console = ConsoleLayer::builder().with_default_env().spawn();
    tracing_subscriber::registry().with(console).with(lines.with_filter(filter)).try_init()
}
