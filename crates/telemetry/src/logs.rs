//! The log. It goes to standard error, because standard output is for the results of commands.

use std::io::IsTerminal;

use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, registry};

use super::directives;
use super::json_lines::JsonLines;
use super::otlp::Traces;
use super::settings::{Format, Settings};
use super::traces::{RequestSpanFilter, is_trace_span};
use slateberg_base::setting::InvalidSetting;

/// A layer of the process's tracing subscriber.
type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Rejects settings that would disable the log by mistake.
pub fn check(settings: &Settings) -> Result<(), InvalidSetting> {
    directives::parse(&settings.level).map(|_| ())
}

/// Starts the log and, with `traces`, the export of traces. Events before this call are lost.
pub fn init(settings: &Settings, traces: Option<&Traces>) -> Result<(), InvalidSetting> {
    let filter = directives::parse(&settings.level)?;
    // The first server in a process configures the log. Later servers share it.
    if begin(settings, filter, traces).is_err() {
        tracing::debug!("the log is already initialized");
    }
    Ok(())
}

fn begin(
    settings: &Settings,
    filter: EnvFilter,
    traces: Option<&Traces>,
) -> Result<(), TryInitError> {
    let mut layers = traces.map(Traces::layers).unwrap_or_default();
    layers.push(lines(settings, filter, traces.is_some()));
    // tokio-console connects to `TOKIO_CONSOLE_BIND`, or by default to 127.0.0.1:6669. It receives
    // all events of Tokio.
    #[cfg(feature = "console")]
    layers.push(console_subscriber::ConsoleLayer::builder().with_default_env().spawn().boxed());
    registry().with(layers).try_init()
}

/// Returns the layer that writes log lines.
fn lines(settings: &Settings, filter: EnvFilter, is_traced: bool) -> AnyLayer {
    let lines = fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        // A line that cannot be written, for example to a full disk, is lost. Reporting this on
        // standard error would panic, because that is the stream that failed.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let lines: AnyLayer = match settings.format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().event_format(JsonLines).boxed(),
    };
    // Spans of sampled requests appear in log lines, whatever the log level.
    let others =
        filter_fn(|metadata| !is_trace_span(metadata)).with_max_level_hint(LevelFilter::TRACE);
    let filter = others.and(filter);
    match is_traced {
        true => lines.with_filter(filter.or(RequestSpanFilter { selects: is_trace_span })).boxed(),
        false => lines.with_filter(filter).boxed(),
    }
}
