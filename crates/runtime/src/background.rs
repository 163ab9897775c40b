//! The background tasks and the telemetry of an open catalog. A server and a program that embeds
//! the catalog both use them.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build::Runtime;
use super::tasks;
use slateberg_catalog::Catalog;
use slateberg_telemetry::otlp::RunningExporter;

/// Tasks and telemetry of an open catalog. They run until [`Background::stop`] is called or this
/// value is dropped.
pub struct Background {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    exporter: Option<RunningExporter>,
}

impl Background {
    /// Starts the exporter and all background tasks.
    pub fn start(runtime: &mut Runtime) -> Self {
        let (stop, stopping) = watch::channel(false);
        let exporter =
            runtime.exporter.take().map(|exporter| exporter.start(&runtime.measures.registry));
        Self { stop, tasks: tasks::spawn(runtime, &stopping), exporter }
    }

    /// Starts the tasks of a replica, which changes nothing.
    pub fn start_for_replica(runtime: &Runtime) -> Self {
        let (stop, stopping) = watch::channel(false);
        Self { stop, tasks: tasks::watch_inputs(runtime, &stopping), exporter: None }
    }

    /// Returns a receiver that becomes `true` when all tasks must stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Adds a task, which must end soon after [`Background::stopping`] becomes `true`.
    pub fn add(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Also stops all tasks when the catalog's store closes unexpectedly, for example on an error.
    pub fn stop_with_store(&mut self, catalog: Catalog) {
        let (stop, mut stopping) = (self.stop.clone(), self.stopping());
        self.add(tokio::spawn(async move {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => {}
                lost = catalog.store_closed() => {
                    tracing::error!(%lost, "the store of the catalog has closed: stopping the background tasks");
                    stop.send_replace(true);
                }
            }
        }));
    }

    /// Signals all tasks to stop. Does not wait for them.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the tasks have ended.
    pub async fn ended(&mut self) {
        for task in self.tasks.drain(..) {
            if let Err(panic) = task.await {
                tracing::error!(%panic, "a background task has failed");
            }
        }
    }

    /// Sends the remaining telemetry, for a bounded time. Must be called last, so that the
    /// telemetry of the catalog's shutdown is included.
    pub async fn finish(mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.finish().await;
        }
    }
}

impl Drop for Background {
    /// Signals the tasks explicitly. Dropping this sender would not close the channel, because a
    /// task may hold a clone of the sender.
    fn drop(&mut self) {
        self.stop();
    }
}
