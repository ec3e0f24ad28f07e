//! The replies that a future waits for.

use super::core::Reply;
use super::error::ErrorKind;
use guira_sync::lock::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct Promise {
    /// LOCK: pool_promise. Leaf.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    replies: Option<Vec<Reply>>,
    waker: Option<Waker>,
}

impl Promise {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Completes the future of a call. If it is dropped first, the future fails, so that no future
/// waits forever.
#[derive(Debug)]
pub(super) struct Answerer {
    promise: Option<Arc<Promise>>,
    keys: usize,
}

impl Answerer {
    pub(super) fn answer(mut self, replies: Vec<Reply>) {
        self.give(replies);
    }

    fn give(&mut self, replies: Vec<Reply>) {
        let Some(promise) = self.promise.take() else { return };
        let mut state = promise.state();
        state.replies = Some(replies);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.give(vec![Err(ErrorKind::Broken.into()); self.keys]);
    }
}

/// A call in flight with this many keys.
pub(super) fn promise<C>(keys: usize, client: C) -> (Answerer, Pending<C>) {
    let promise = Arc::<Promise>::default();
    (Answerer { promise: Some(Arc::clone(&promise)), keys }, Pending { promise, _client: client })
}

/// The future of a call's replies.
pub(super) struct Pending<C> {
    promise: Arc<Promise>,
    /// Keeps the client's thread alive while a caller waits.
    _client: C,
}

impl<C> Future for Pending<C> {
    type Output = Vec<Reply>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Reply>> {
        let mut state = self.promise.state();
        match state.replies.take() {
            Some(replies) => Poll::Ready(replies),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(pending: &mut Pending<()>) -> Poll<Vec<Reply>> {
        Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_future_is_answered_once_and_also_if_nobody_does() {
        let (answerer, mut pending) = promise(2, ());
        assert!(polled(&mut pending).is_pending());
        answerer.answer(vec![Err(ErrorKind::Busy.into())]);
        assert!(
            matches!(polled(&mut pending), Poll::Ready(replies) if replies == [Err(ErrorKind::Busy.into())])
        );
        assert!(polled(&mut pending).is_pending(), "it is not answered a second time");
        let (answerer, mut pending) = promise(2, ());
        drop(answerer);
        let broken = |replies: &[Reply]| replies == vec![Err(ErrorKind::Broken.into()); 2];
        assert!(matches!(polled(&mut pending), Poll::Ready(replies) if broken(&replies)));
    }
}
