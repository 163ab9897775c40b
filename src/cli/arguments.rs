//! Arguments that several subcommands share.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::exit::{Failure, Outcome};
use super::runtime::runtime;
use slateberg_config::{Error as ConfigError, Settings, Sources, load};

/// The locations of the settings and of the data.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Directory for the state and the default warehouse [default: slateberg-data]
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    data_dir: Option<PathBuf>,
    /// Settings file (TOML) [default: all files config/*.toml except *.example.toml]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,
}

impl Common {
    pub(super) fn sources(&self) -> Sources {
        Sources { config: self.config.clone() }
    }

    pub(super) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = load(&self.sources())?;
        self.change(&mut settings);
        Ok(settings)
    }

    pub(super) fn change(&self, settings: &mut Settings) {
        if let Some(data_dir) = &self.data_dir {
            settings.data_dir.clone_from(data_dir);
        }
    }

    /// Runs work that needs the settings but no server.
    pub(super) fn run_offline<E: Into<Failure>>(
        &self,
        work: impl AsyncFnOnce(&Settings) -> Result<ExitCode, E>,
    ) -> Outcome {
        let settings = self.settings()?;
        runtime()?.block_on(work(&settings)).map_err(Into::into)
    }
}

/// Splits `KEY=VALUE`.
pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = split.ok_or_else(|| format!("expected KEY=VALUE, got '{text}'"))?;
    Ok((key.to_owned(), value.to_owned()))
}
