//! Stopping all threads of a program.

use crate::lock::{Condvar, Mutex};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The program is stopping: the thread ends, and that is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the program is stopping")
    }
}

impl Error for Stopped {}

/// Whether threads are to end, and a way to sleep until then.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: program_stop. Leaf.
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Wakes all threads that wait.
    pub fn set(&self) {
        *self.0.is_set.lock() = true;
        self.0.changed.notify_all();
    }

    /// # Errors
    /// If the program is stopping.
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

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_woken() {
        let stop = Stop::default();
        assert_eq!(stop.check(), Ok(()));
        assert_eq!(stop.wait(Duration::from_millis(1)), Ok(()));
        let sleeper = stop.clone();
        let thread = crate::thread::spawn(move || sleeper.wait(Duration::from_secs(600)));
        stop.set();
        assert_eq!(thread.join().unwrap(), Err(Stopped));
        assert_eq!(stop.check(), Err(Stopped));
    }
}
