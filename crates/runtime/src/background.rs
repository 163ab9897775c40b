//! What a catalog does besides answering, from its opening to its close: the same for a server, and for a
//! program that has the catalog in its own process.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build::Runtime;
use super::tasks;
use slateberg_catalog::Catalog;
use slateberg_telemetry::otlp::Running;

/// Tasks and telemetry of an open catalog, which go on until they are told to stop, or this is dropped.
pub struct Background {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    telling: Option<Running>,
}

impl Background {
    /// Starts everything that a catalog does by itself.
    pub fn start(runtime: &mut Runtime) -> Self {
        let (stop, stopping) = watch::channel(false);
        let telling =
            runtime.exporter.take().map(|exporter| exporter.start(&runtime.measures.registry));
        Self { stop, tasks: tasks::spawn(runtime, &stopping), telling }
    }

    /// Turns true when everything is to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Takes a task to the others. It has to end soon after [`Background::stopping`] turns true.
    pub fn add(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Stops everything, too, when the catalog's store has shut and nobody has asked for it.
    pub fn stop_with_store(&mut self, catalog: Catalog) {
        let (stop, mut stopping) = (self.stop.clone(), self.stopping());
        self.add(tokio::spawn(async move {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => {}
                lost = catalog.store_closed() => {
                    tracing::error!(%lost, "the catalog has stopped");
                    stop.send_replace(true);
                }
            }
        }));
    }

    /// Tells everything to stop, and waits for nothing.
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

    /// Sends what there still is to tell, for a bounded time: last of all, so that what the end of the
    /// catalog did is told as well.
    pub async fn finish(mut self) {
        if let Some(telling) = self.telling.take() {
            telling.finish().await;
        }
    }
}

impl Drop for Background {
    /// One of the tasks can stop the others itself, so that they would not notice that nobody else can.
    fn drop(&mut self) {
        self.stop();
    }
}
