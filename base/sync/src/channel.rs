//! Channels between threads: many senders, one receiver, a queue under a lock. They have the face of
//! std's, which are three forms in one and ten times as much code for each type that is sent.

use crate::lock::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    /// Whether the receiver waits for a value.
    is_receiving: bool,
    /// Senders that wait for room.
    sending: usize,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// The most values that the queue holds.
    limit: usize,
    arrival: Condvar,
    room: Condvar,
}

impl<T> Shared<T> {
    fn new(limit: usize) -> Arc<Self> {
        let (queue, senders) = (VecDeque::new(), 1);
        let state = State { queue, senders, has_receiver: true, is_receiving: false, sending: 0 };
        let (arrival, room) = (Condvar::new(), Condvar::new());
        Arc::new(Shared { state: Mutex::new(state), limit, arrival, room })
    }

    /// Adds a value if there is room.
    fn push(&self, mut state: MutexGuard<'_, State<T>>, value: T) -> Result<(), TrySendError<T>> {
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(value));
        }
        if state.queue.len() >= self.limit {
            return Err(TrySendError::Full(value));
        }
        state.queue.push_back(value);
        let is_receiving = state.is_receiving;
        drop(state);
        if is_receiving {
            self.arrival.notify_one();
        }
        Ok(())
    }

    fn pop(&self, mut state: MutexGuard<'_, State<T>>) -> Result<T, TryRecvError> {
        let value = state.queue.pop_front();
        let (senders, sending) = (state.senders, state.sending);
        drop(state);
        if value.is_some() && sending > 0 {
            self.room.notify_one();
        }
        value.ok_or(if senders == 0 { TryRecvError::Disconnected } else { TryRecvError::Empty })
    }

    /// Waits while there is neither a value nor the end, at most for `limit`.
    fn wait(&self, limit: Option<Duration>) -> MutexGuard<'_, State<T>> {
        let is_waiting = |state: &mut State<T>| {
            state.is_receiving = state.queue.is_empty() && state.senders > 0;
            state.is_receiving
        };
        let mut state = self.state.lock();
        match limit {
            Some(limit) => state = self.arrival.wait_timeout_while(state, limit, is_waiting),
            None => {
                while is_waiting(&mut state) {
                    state = self.arrival.wait(state);
                }
            }
        }
        state.is_receiving = false;
        state
    }

    fn add_sender(&self) {
        self.state.lock().senders += 1;
    }

    fn remove_sender(&self) {
        let mut state = self.state.lock();
        state.senders -= 1;
        let is_end = state.senders == 0;
        drop(state);
        if is_end {
            self.arrival.notify_one();
        }
    }
}

fn unsent<T>(error: TrySendError<T>) -> SendError<T> {
    match error {
        TrySendError::Full(value) | TrySendError::Disconnected(value) => SendError(value),
    }
}

/// A channel without a limit.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Shared::new(usize::MAX);
    (Sender(shared.clone()), Receiver(shared, PhantomData))
}

/// A channel that holds at most `limit` values, at least one.
pub fn sync_channel<T>(limit: usize) -> (SyncSender<T>, Receiver<T>) {
    let shared = Shared::new(limit.max(1));
    (SyncSender(shared.clone()), Receiver(shared, PhantomData))
}

/// Sends without waiting.
pub struct Sender<T>(Arc<Shared<T>>);

/// Waits while the channel is full.
pub struct SyncSender<T>(Arc<Shared<T>>);

/// Receives the values in the order in which they were sent. Not [`Sync`]: one thread waits at a time.
pub struct Receiver<T>(Arc<Shared<T>>, PhantomData<Cell<()>>);

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// The value, if the receiver was dropped.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.push(self.0.state.lock(), value).map_err(unsent)
    }
}

impl<T> SyncSender<T> {
    /// Sends a value, once there is room.
    ///
    /// # Errors
    /// The value, if the receiver was dropped.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state.lock();
        while state.has_receiver && state.queue.len() >= self.0.limit {
            state.sending += 1;
            state = self.0.room.wait(state);
            state.sending -= 1;
        }
        self.0.push(state, value).map_err(unsent)
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// The value, if the channel is full or the receiver was dropped.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.push(self.0.state.lock(), value)
    }
}

macro_rules! shown {
    ($name:ident) => {
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

shown!(Receiver);

macro_rules! sender {
    ($name:ident) => {
        shown!($name);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.0.add_sender();
                $name(self.0.clone())
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.0.remove_sender();
            }
        }
    };
}

sender!(Sender);
sender!(SyncSender);

impl<T> Receiver<T> {
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// If there is none now, or never will be.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.pop(self.0.state.lock())
    }

    /// Waits for a value.
    ///
    /// # Errors
    /// If all senders were dropped.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.pop(self.0.wait(None)).map_err(|_| RecvError)
    }

    /// Waits for a value, at most for `limit`.
    ///
    /// # Errors
    /// If all senders were dropped, or the time is over.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.0.pop(self.0.wait(Some(limit))).map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// The values that are there now.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// The values until all senders were dropped; waits for them.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_receiver = false;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        // Values may send or drop senders of this channel when they are dropped.
        drop(left);
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn values_arrive_in_order_and_end_with_the_last_sender() {
        let (sender, receiver) = channel();
        let other = sender.clone();
        sender.send(1).unwrap();
        other.send(2).unwrap();
        drop(sender);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        drop(other);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn values_that_cannot_be_sent_are_returned() {
        let (sender, receiver) = sync_channel(1);
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        drop(receiver);
        assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
        assert_eq!(sender.send(4), Err(SendError(4)));
        let (sender, _) = channel();
        assert_eq!(sender.send(5), Err(SendError(5)));
    }

    #[test]
    fn a_value_that_sends_when_it_is_dropped_does_not_block_the_receiver() {
        struct Replies(Sender<Option<Replies>>);
        impl Drop for Replies {
            fn drop(&mut self) {
                assert!(self.0.send(None).is_err());
            }
        }
        let (sender, receiver) = channel();
        sender.send(Some(Replies(sender.clone()))).unwrap();
        drop(receiver);
    }

    #[test]
    fn a_wait_without_a_value_ends() {
        let (_sender, receiver) = channel::<()>();
        assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn many_senders_wait_for_room_and_each_value_arrives_once() {
        const EACH: usize = if cfg!(miri) { 20 } else { 2_000 };
        let (sender, receiver) = sync_channel(2);
        let received: Vec<usize> = thread::scope(|scope| {
            for number in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || (0..EACH).for_each(|value| sender.send(value * 3 + number).unwrap()));
            }
            drop(sender);
            receiver.iter().collect()
        });
        for number in 0..3 {
            let of_one: Vec<usize> = received.iter().copied().filter(|value| value % 3 == number).collect();
            assert_eq!(of_one, (0..EACH).map(|value| value * 3 + number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sender_that_waits_for_room_ends_with_the_receiver() {
        let (sender, receiver) = sync_channel(1);
        sender.send(1).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| sender.send(2));
            while sender.0.state.lock().sending == 0 {
                thread::yield_now();
            }
            drop(receiver);
            assert_eq!(waiting.join().unwrap(), Err(SendError(2)));
        });
    }
}
