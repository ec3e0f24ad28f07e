//! Allows one policy change at a time, by a command of an operator or by the server itself.

use guira_sync::lock::{Mutex, MutexGuard};

/// The right to change the server.
#[derive(Debug, Default)]
pub(super) struct Operator {
    /// LOCK: operator. What a command sets and what it shows are of the same command. May take all others, and any time.
    one: Mutex<()>,
}

impl Operator {
    /// Waits until no other change is under way.
    pub(super) fn wait(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// `None` if another change is under way.
    pub(super) fn at_once(&self) -> Option<MutexGuard<'_, ()>> {
        self.one.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_changes_do_not_overlap() {
        let operator = Operator::default();
        let held = operator.wait();
        assert!(operator.at_once().is_none());
        drop(held);
        assert!(operator.at_once().is_some());
    }
}
