//! Empties the caches of an idle server. The allocator then returns the memory to the system.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::routes::App;

/// Interval between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Number of checks in a row without a request, after which the server is idle.
const IDLE_CHECKS: u32 = 5;

/// Starts to check whether the server is idle, until `stopping` becomes `true`.
pub(super) fn spawn(app: &App, mut stopping: watch::Receiver<bool>) -> JoinHandle<()> {
    let (catalog, responses) = (app.runtime.catalog.clone(), Arc::clone(&app.response_cache));
    tokio::spawn(async move {
        let (mut last, mut unchanged) = (catalog.cache_requests(), 0);
        loop {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(CHECK_EVERY) => {}
            }
            let now = catalog.cache_requests();
            unchanged = if now == last { unchanged + 1 } else { 0 };
            last = now;
            // Background tasks fill the caches again.
            if unchanged >= IDLE_CHECKS {
                tracing::debug!("no request for five minutes: emptying the caches");
                catalog.clear_caches();
                responses.clear();
            }
        }
    })
}
