//! Telling all threads to end.

use guira_sync::lock::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// The thread that is told this ends without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program is stopping")]
pub struct Stopped;

/// Whether threads are to end, and a way to sleep until then.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: database_stop. Leaf.
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn set(&self) {
        *self.0.is_set.lock() = true;
        self.0.changed.notify_all();
    }

    pub fn check(&self) -> Result<(), Stopped> {
        self.wait(Duration::ZERO)
    }

    /// Sleeps for `duration`.
    ///
    /// # Errors
    /// As soon as the thread is to end.
    pub fn wait(&self, duration: Duration) -> Result<(), Stopped> {
        let is_set = self.0.is_set.lock();
        let is_set = self.0.changed.wait_timeout_while(is_set, duration, |is_set| !*is_set);
        if *is_set { Err(Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_woken() {
        let stop = Stop::default();
        assert_eq!(stop.check(), Ok(()));
        assert_eq!(stop.wait(Duration::from_millis(1)), Ok(()));
        let sleeper = stop.clone();
        let thread = guira_sync::thread::spawn(move || sleeper.wait(Duration::from_secs(600)));
        stop.set();
        assert_eq!(thread.join().unwrap(), Err(Stopped));
        assert_eq!(stop.check(), Err(Stopped));
    }
}
