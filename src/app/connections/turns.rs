//! [`Turns`]: the order in which a connection and its requests run.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::activity::Activity;

/// Lets the ready tasks of the runtime run before a connection with several requests in progress.
/// The connection is ready as soon as the first of its requests has something to send. When it runs
/// after the others, it sends everything in one write. (The Go implementation of gRPC does the
/// same.)
#[derive(Default)]
pub(super) struct Turns {
    has_waited: bool,
}

impl Turns {
    /// Polls a connection when its turn has come.
    pub(super) fn poll<F: Future>(
        &mut self,
        connection: Pin<&mut F>,
        context: &mut Context<'_>,
        activity: &Activity,
    ) -> Poll<F::Output> {
        self.has_waited = !self.has_waited && activity.is_concurrent();
        if self.has_waited {
            // A task that is woken while it runs goes to the end of the queue.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        connection.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};
    use std::sync::Arc;

    use axum::http::Version;

    use super::*;

    /// Returns the number of polls of a ready connection until it has run.
    async fn polls_until_the_connection_runs(requests: usize) -> usize {
        let activity = Arc::new(Activity::default());
        let _requests: Vec<_> = (0..requests).map(|_| activity.begin(Version::HTTP_2)).collect();
        let (mut turns, mut connection, mut polls) = (Turns::default(), ready(()), 0);
        poll_fn(|context| {
            polls += 1;
            turns.poll(Pin::new(&mut connection), context, &activity)
        })
        .await;
        polls
    }

    #[tokio::test]
    async fn connection_with_several_requests_runs_in_its_second_turn() {
        assert_eq!(polls_until_the_connection_runs(2).await, 2);
    }

    #[tokio::test]
    async fn connection_with_one_request_runs_immediately() {
        assert_eq!(polls_until_the_connection_runs(1).await, 1);
    }
}
