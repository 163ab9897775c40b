//! `slateberg serve`: serves the catalog over HTTP until a stop signal arrives.

use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::arguments::Common;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::runtime::runtime;
use super::settings_check::SettingsCheck;
use crate::app::banner::{banner, banner_line, standby_banner, standby_banner_line};
use crate::app::cluster::Member;
use crate::app::run::BoundPorts;
use crate::app::stop_signals::StopSignals;
use crate::app::{App, cluster, run};
use slateberg_base::descriptors;
use slateberg_config::setting_source::SettingSource;
use slateberg_config::{LoadedSettings, Settings};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_store::records::FORMAT_VERSION;
use slateberg_telemetry::logs;
use slateberg_telemetry::otlp::Traces;
use slateberg_telemetry::settings::Format;

/// Maximum time for the start to complete after a stop signal.
const START_GRACE: Duration = Duration::from_secs(3);

/// Serve the catalog over HTTP.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address and port to listen on. With port 0, the system chooses a free port [default:
    /// 127.0.0.1:8181]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Disable authentication: anyone who can reach the port has full access
    #[arg(long)]
    insecure_no_auth: bool,
    /// Allow --insecure-no-auth on an address that other machines can reach. Dangerous
    #[arg(long, requires = "insecure_no_auth")]
    insecure_no_auth_on_public_address: bool,
    /// Create and print a new admin key. For use when all admin keys are lost
    #[arg(long)]
    new_admin_key: bool,
    #[command(flatten)]
    common: Common,
}

impl Serve {
    /// Serves until a signal stops it.
    pub fn run(self) -> Outcome {
        self.run_with(Dependencies::default(), |_| {})
    }

    /// Serves with these components, after `change` has changed the settings.
    pub fn run_with(
        self,
        dependencies: Dependencies,
        change: impl FnOnce(&mut Settings),
    ) -> Outcome {
        let runtime = runtime()?;
        let outcome = runtime.block_on(async {
            let sources = self.common.sources();
            let change = |settings: &mut Settings| {
                self.change(settings);
                change(settings);
            };
            let checked = SettingsCheck::new(&sources, change, &dependencies);
            if !checked.problems.is_empty() {
                let message = format!("cannot start\n\n{}", checked.report());
                return Err(Failure::new(checked.exit(), message.trim_end()));
            }
            let LoadedSettings { settings, warnings, .. } = checked.read;
            let dependencies = Dependencies { policies: checked.findings.policies, ..dependencies };
            let traces = Traces::new(&settings.telemetry.otlp);
            let traces = traces.map_err(|error| Failure::new(Exit::Settings, error))?;
            let initialized = logs::init(&settings.log, traces.as_ref());
            initialized.map_err(|error| Failure::new(Exit::Settings, error))?;
            for warning in warnings {
                let variable = match warning.source {
                    SettingSource::Variable(name) => name,
                    other => other.to_string(),
                };
                let help = warning.help;
                tracing::warn!(variable, help, "unknown environment variable");
            }
            serve(settings, dependencies, traces).await
        });
        // The store is closed. A disk that does not respond must not delay the end.
        runtime.shutdown_background();
        outcome
    }

    fn change(&self, settings: &mut Settings) {
        self.common.change(settings);
        if let Some(listen) = self.listen {
            settings.server.listen = listen;
        }
        settings.authn.insecure_no_auth |= self.insecure_no_auth;
        settings.authn.insecure_no_auth_on_public_address |=
            self.insecure_no_auth_on_public_address;
        settings.authn.new_admin_key = self.new_admin_key;
    }
}

/// Runs `work` until a stop signal arrives. If the work completes shortly after the signal, its
/// result is still returned: the first start must print its admin key.
async fn until_stopped<T>(signals: &mut StopSignals, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = signals.wait() => tokio::time::timeout(START_GRACE, work).await.ok(),
    }
}

async fn serve(settings: Settings, dependencies: Dependencies, traces: Option<Traces>) -> Outcome {
    // Raise the limit of open files before any file is opened. Connections and files of the store
    // share this limit.
    match descriptors::raise_limit() {
        Ok(()) => tracing::debug!(open_files_max = descriptors::limit(), "limit of open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
    // Handle stop signals during the start, too. The start may take long, for example because it
    // waits for the bucket or replays a long log.
    let mut signals = StopSignals::listen();
    let bound = run::bind(&settings).await?;
    if settings.cluster.enabled {
        return serve_as_member(settings, dependencies, traces, bound, &mut signals).await;
    }
    let Some(opened) = until_stopped(&mut signals, App::build(settings, dependencies)).await else {
        tracing::info!("shutting down before the start was complete");
        return Ok(ExitCode::SUCCESS);
    };
    let mut app = opened?;
    if let Some(traces) = traces {
        app.runtime.take_traces(traces);
    }
    match app.runtime.settings.log.format {
        Format::Text => print(&banner(&app, &bound.urls())),
        Format::Json => print(&banner_line(&app, &bound.urls())),
    }
    run::run(app, bound, &mut signals).await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs this process as a member of a cluster.
async fn serve_as_member(
    settings: Settings,
    dependencies: Dependencies,
    traces: Option<Traces>,
    bound: BoundPorts,
    signals: &mut StopSignals,
) -> Outcome {
    let settings = settings.with_memory_shares();
    let (format, urls) = (settings.log.format, bound.urls());
    let (writer_urls, state_url) = (urls.clone(), settings.state.url.clone());
    let clock = Arc::clone(&dependencies.clock);
    let print_banner = move |app: &App| match format {
        Format::Text => print(&banner(app, &writer_urls)),
        Format::Json => print(&banner_line(app, &writer_urls)),
    };
    let print_standby = move |writer: &str| match format {
        Format::Text => print(&standby_banner(&urls, &state_url, writer)),
        Format::Json => {
            print(&standby_banner_line(&urls, &state_url, writer, clock.now_ms()));
        }
    };
    let member = Member {
        settings,
        store_format: FORMAT_VERSION,
        dependencies,
        bound,
        traces,
        print_banner: Arc::new(print_banner),
        print_standby: Box::new(print_standby),
    };
    cluster::run(member, signals.wait()).await?;
    Ok(ExitCode::SUCCESS)
}
