//! The window of a client, for all of its threads.

use super::window::{Era, Window};
use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct SharedWindow {
    /// LOCK: pool_window. Leaf.
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    window: Window,
    /// Threads that have nothing under way and wait for a place.
    waiting: u32,
}

/// Whether who wants places has keys under way, whose answers make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnderWay {
    Nothing,
    Something,
}

impl SharedWindow {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes places for as many of `wanted` keys as there is room for. Threads with requests in flight leave them to threads without.
    pub(super) fn take(&self, wanted: u32, under_way: UnderWay) -> (u32, Era) {
        let mut state = self.state();
        let gives_way = under_way == UnderWay::Something && state.waiting > 0;
        let taken = if gives_way { 0 } else { state.window.take(wanted) };
        (taken, state.window.era())
    }

    /// Waits until there may be room, for at most `patience`.
    pub(super) fn wait(&self, patience: Duration) {
        let mut state = self.state();
        state.waiting += 1;
        let is_full = |state: &mut State| state.window.room() == 0;
        let mut state = self.freed.wait_timeout_while(state, patience, is_full);
        state.waiting -= 1;
    }

    /// Some keys were answered, and others are given up without that anything was learned.
    pub(super) fn leave(&self, answered: u32, put_back: u32) {
        let mut state = self.state();
        (0..answered).for_each(|_| state.window.answered());
        (0..put_back).for_each(|_| state.window.put_back());
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.freed.notify_all();
        }
    }

    /// A key of this era was not answered in time. True if the window was halved for it.
    pub(super) fn lost(&self, era: Era) -> bool {
        self.state().window.lost(era)
    }

    pub(super) fn era(&self) -> Era {
        self.state().window.era()
    }

    pub(super) fn size(&self) -> u32 {
        self.state().window.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_that_waits_goes_first() {
        let window = Arc::new(SharedWindow::default());
        let size = window.size();
        assert_eq!(window.take(u32::MAX, UnderWay::Nothing).0, size);
        let other = {
            let window = window.clone();
            guira_sync::thread::spawn(move || {
                window.wait(Duration::from_secs(60));
                window.take(1, UnderWay::Nothing).0
            })
        };
        while window.state().waiting == 0 {
            guira_sync::thread::yield_now();
        }
        window.leave(0, 0);
        assert_eq!(window.take(1, UnderWay::Something).0, 0, "there is no room");
        window.state().window.put_back();
        assert_eq!(window.take(1, UnderWay::Something).0, 0, "the other thread waits for it");
        window.leave(0, 0);
        assert_eq!(other.join().unwrap(), 1);
    }

    #[test]
    fn nobody_waits_for_longer_than_wanted() {
        let window = SharedWindow::default();
        window.take(u32::MAX, UnderWay::Nothing);
        window.wait(Duration::from_millis(1));
        assert_eq!(window.state().waiting, 0);
    }
}
