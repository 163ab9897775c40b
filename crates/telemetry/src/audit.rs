//! The audit log: one line of JSON per change and per denial, to standard output or a file.
//!
//! The thread that responds to a request writes the line before the response, so a crash loses no
//! queued lines. A line records the principal, the action and its outcome, and never a credential
//! or a value.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::settings::{AuditSettings, AuditTo};
use slateberg_base::rfc3339;

/// The audit log file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("audit.file: {}: {}", .0.display(), .1)]
pub struct AuditError(PathBuf, #[source] io::Error);

/// The destination of audit lines.
#[derive(Debug, Default)]
pub struct AuditLog {
    sink: Option<Sink>,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File { path: PathBuf, file: Mutex<File> },
}

/// A line: its time, the kind of event, and the event's fields.
#[derive(Serialize)]
struct Line<'a, T> {
    time: String,
    event: &'a str,
    #[serde(flatten)]
    fields: &'a T,
}

impl AuditLog {
    /// Opens the audit log that the settings describe. Appends to an existing file.
    pub fn open(settings: &AuditSettings) -> Result<Self, AuditError> {
        let sink = match settings.to {
            AuditTo::Off => None,
            AuditTo::Stdout => Some(Sink::Stdout),
            AuditTo::File => {
                let path = settings.file.clone();
                let file = open(&path).map_err(|error| AuditError(path.clone(), error))?;
                Some(Sink::File { path, file: Mutex::new(file) })
            }
        };
        Ok(Self { sink })
    }

    /// Whether audit lines are written.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Reopens the file after log rotation has moved it. On an error, the current file stays in
    /// use.
    pub fn reopen(&self) -> Result<(), AuditError> {
        let Some(Sink::File { path, file }) = &self.sink else { return Ok(()) };
        let new = open(path).map_err(|error| AuditError(path.clone(), error))?;
        *file.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Writes an event's line. `at_ms` is in milliseconds since 1970 (UTC). A line that cannot be
    /// written is reported in the log and does not fail the request.
    pub fn write(&self, at_ms: i64, event: &str, fields: &impl Serialize) {
        let Some(sink) = &self.sink else { return };
        let time = rfc3339::format(at_ms);
        let written = serde_json::to_vec(&Line { time, event, fields })
            .map_err(io::Error::other)
            .and_then(|line| sink.write(line));
        if let Err(error) = written {
            tracing::error!(%error, event, "an audit line could not be written");
        }
    }
}

impl Sink {
    /// Writes with a single call, so that lines of several requests do not mix.
    fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&line)?;
                stdout.flush()
            }
            Self::File { file, .. } => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
