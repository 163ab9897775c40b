//! The audit log: one line of JSON for each change and each denial, to standard output or a file.
//!
//! A line is written before its answer goes out, by whoever answers: nothing waits in a queue that a crash
//! would lose. What is told is who asked for what and how it ended, and never a credential or a value.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::settings::{AuditSettings, AuditTo};
use slateberg_base::rfc3339;

/// Why there can be no audit log.
#[derive(Debug, thiserror::Error)]
#[error("audit.file: {}: {}", .0.display(), .1)]
pub struct AuditError(PathBuf, io::Error);

/// Where audit lines go.
#[derive(Debug, Default)]
pub struct AuditLog {
    sink: Option<Sink>,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File { path: PathBuf, file: Mutex<File> },
}

/// A line: when, what kind of thing, and what it has to tell.
#[derive(Serialize)]
struct Line<'a, T> {
    time: String,
    event: &'a str,
    #[serde(flatten)]
    about: &'a T,
}

impl AuditLog {
    /// An audit log as the settings want it. Lines are added behind those that are in the file.
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

    /// Whether anything is written.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Opens the file anew, once something else has taken the old one away. It goes on with the old one if
    /// there can be no new one.
    pub fn reopen(&self) -> Result<(), AuditError> {
        let Some(Sink::File { path, file }) = &self.sink else { return Ok(()) };
        let new = open(path).map_err(|error| AuditError(path.clone(), error))?;
        *file.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Writes a line of an event, at a time in milliseconds since 1970 (UTC). What cannot be written is told
    /// to the log, and stops no request.
    pub fn write(&self, at_ms: i64, event: &str, about: &impl Serialize) {
        let Some(sink) = &self.sink else { return };
        let time = rfc3339::format(at_ms);
        let written = serde_json::to_vec(&Line { time, event, about })
            .map_err(io::Error::other)
            .and_then(|line| sink.write(line));
        if let Err(error) = written {
            tracing::error!(%error, event, "an audit line could not be written");
        }
    }
}

impl Sink {
    /// In one piece, so that lines of several requests do not mix.
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
