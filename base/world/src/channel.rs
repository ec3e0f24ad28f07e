//! Channels, with the face of std's: receivers and senders of full channels wait in the scheduler.

use crate::scheduler::{self, Woken};
use crate::wait::Waiters;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use std::sync::mpsc::{RecvTimeoutError, SendError, TryRecvError, TrySendError};

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

#[derive(Debug)]
struct Shared<T> {
    /// Never contended: no task runs while another one has it.
    state: Mutex<State<T>>,
    /// The most that the queue holds.
    limit: usize,
    receiving: Waiters,
    sending: Waiters,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.state();
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(value));
        }
        if state.queue.len() >= self.limit {
            return Err(TrySendError::Full(value));
        }
        state.queue.push_back(value);
        drop(state);
        self.receiving.wake_all();
        Ok(())
    }

    fn leave(&self) {
        let mut state = self.state();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.receiving.wake_all();
        }
    }
}

fn new<T>(limit: usize) -> Arc<Shared<T>> {
    let state = State { queue: VecDeque::new(), senders: 1, has_receiver: true };
    let (receiving, sending) = (Waiters::new(), Waiters::new());
    Arc::new(Shared { state: Mutex::new(state), limit, receiving, sending })
}

/// A channel without a limit.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = new(usize::MAX);
    (Sender(shared.clone()), Receiver(shared))
}

/// A channel that holds at most `limit` values, at least one.
pub fn sync_channel<T>(limit: usize) -> (SyncSender<T>, Receiver<T>) {
    let shared = new(limit.max(1));
    (SyncSender(shared.clone()), Receiver(shared))
}

/// Sends without waiting.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Waits while the channel is full.
#[derive(Debug)]
pub struct SyncSender<T>(Arc<Shared<T>>);

#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// The value if the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        scheduler::point();
        match self.0.offer(value) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(value) | TrySendError::Disconnected(value)) => Err(SendError(value)),
        }
    }
}

impl<T> SyncSender<T> {
    /// Sends a value, once there is room.
    ///
    /// # Errors
    /// The value if the receiver is gone.
    pub fn send(&self, mut value: T) -> Result<(), SendError<T>> {
        scheduler::point();
        loop {
            match self.0.offer(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(value)) => return Err(SendError(value)),
                Err(TrySendError::Full(back)) => value = back,
            }
            self.0.sending.enter();
            self.0.sending.wait(None);
        }
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// The value otherwise.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        scheduler::point();
        self.0.offer(value)
    }
}

macro_rules! sender {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.0.state().senders += 1;
                $name(self.0.clone())
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.0.leave();
            }
        }
    };
}

sender!(Sender);
sender!(SyncSender);

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_receiver = false;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        self.0.sending.wake_all();
    }
}

impl<T> Receiver<T> {
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// If there is none now, or never will be.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        scheduler::point();
        let mut state = self.0.state();
        let value = state.queue.pop_front();
        let senders = state.senders;
        drop(state);
        match value {
            Some(value) => {
                self.0.sending.wake_one();
                Ok(value)
            }
            None if senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Waits for a value.
    ///
    /// # Errors
    /// If all senders are gone.
    pub fn recv(&self) -> Result<T, std::sync::mpsc::RecvError> {
        loop {
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(std::sync::mpsc::RecvError),
                Err(TryRecvError::Empty) => {}
            }
            self.0.receiving.enter();
            self.0.receiving.wait(None);
        }
    }

    /// The same, at most for `limit`.
    ///
    /// # Errors
    /// If all senders are gone, or the time is over.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        let end = scheduler::now().saturating_add(limit);
        loop {
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let left = end.saturating_sub(scheduler::now());
            self.0.receiving.enter();
            if self.0.receiving.wait(Some(left)) == Woken::ByTime {
                return self.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                });
            }
        }
    }

    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// The values until all senders are gone.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }
}
