//! The thread that commits memory ahead, if there is one: whoever calls [`commit_ahead`] again and again.
//!
//! Memory is committed when it is first touched: the system clears it then, 2 MiB at once if it commits huge pages. So the next pages of
//! items are kept ready, and a table that the index is to grow into is committed before it is used. Both are charged first, as if a store
//! had taken them, and a store that is faster than this thread takes what is on its way as it is.

use crate::core::Core;
use crate::index::{Scheme, TableAhead};
use guira_contract::CommitAhead;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::thread::Thread;

#[derive(Debug, Default)]
pub(crate) struct Committer {
    /// LOCK: committer. Leaf.
    thread: Mutex<Option<Thread>>,
}

impl Committer {
    fn lock(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock()
    }

    pub(crate) fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// There may be something to commit.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.lock().as_ref() {
            thread.unpark();
        }
    }

    /// This thread does, from now on.
    fn is_me(&self) {
        let me = guira_sync::thread::current();
        let mut thread = self.lock();
        if thread.as_ref().is_none_or(|thread| thread.id() != me.id()) {
            *thread = Some(me);
        }
    }
}

/// Commits a piece of what will be needed next.
pub(crate) fn commit_ahead<X: Scheme>(core: &Core<X>) -> CommitAhead {
    core.committer.is_me();
    let memory = core.pool.memory();
    if memory.is_ahead_short() && memory.commit_ahead() {
        return CommitAhead::Committed;
    }
    match core.index.commit_ahead(core.pool.quiescence()) {
        TableAhead::Committed => CommitAhead::Committed,
        TableAhead::NoRoom(bytes) => {
            core.pool.budget().give(bytes);
            CommitAhead::Idle
        }
        TableAhead::Idle if memory.commit_ahead() => CommitAhead::Committed,
        TableAhead::Idle => CommitAhead::Idle,
    }
}
