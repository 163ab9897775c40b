//! [`Uncancelled`]: a future that runs to its end even if it is dropped before.
//!
//! A spawned task would do so, too. But then another thread has to be woken up for the task, and
//! again for its result, which costs more CPU than most of these tasks themselves.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that the calling task polls. If it is dropped before its end, it continues in a task of
/// its own. A panic is returned as an error.
#[must_use = "futures do nothing until they are polled"]
pub struct Uncancelled<T: Send + 'static> {
    /// `None` after the end.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

/// A panic of the future.
#[derive(Debug, Clone)]
pub struct Panicked(String);

impl<T: Send + 'static> Uncancelled<T> {
    /// Wraps a future. It must be used in a Tokio runtime.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<T: Send + 'static> Future for Uncancelled<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(Err(Panicked("polled after its end".to_owned())));
        };
        let result = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(Panicked::of(panic.as_ref())),
        };
        self.work = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for Uncancelled<T> {
    fn drop(&mut self) {
        // Without a runtime, the process is ending.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "unknown".to_owned()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn result_is_that_of_the_future() {
        assert_eq!(Uncancelled::new(async { 1 }).await.expect("no panic"), 1);
    }

    #[tokio::test]
    async fn panic_is_an_error() {
        let panicking = Uncancelled::new(async { panic!("on purpose") });
        let error: Panicked = panicking.await.expect_err("it panics");
        assert_eq!(error.to_string(), "panic: on purpose");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_future_continues() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work = Uncancelled::new(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            sender.send(()).expect("the test waits");
        });
        let waiting = tokio::time::timeout(Duration::from_secs(1), work).await;
        assert!(waiting.is_err(), "the work takes longer");
        receiver.await.expect("the work has ended");
    }
}
