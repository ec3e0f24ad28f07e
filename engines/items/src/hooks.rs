//! Windows that tests hold open. In a build without the feature `hooks` every call compiles to nothing.
//!
//! Some interleavings last nanoseconds. A test that wants to see what a reader does in one sets a hook; the writer
//! that comes through the window calls it and waits until it returns.

/// A place where a thread can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// An entry has left its bucket and has not yet arrived in the other.
    Displacing,
    /// A chunk holds the header and the key of a new item, and still the value of an old one.
    Refilling,
    /// A reader has found a slot with the right tag and is about to look at the item.
    Visiting,
    /// A reader has found an item with the right key and is about to copy it.
    Reading,
    /// A writer is about to take the counters of its key.
    Locking,
    /// A writer has decided what to do about an item, and not done it yet.
    Judged,
    /// A writer has announced an item and seen that it is there.
    Announced,
    /// An item is ready and about to be put into the table.
    Publishing,
    /// An item is marked and still on the list.
    Marked,
    /// The link of a bucket is ready, and the bucket not yet on the list.
    Dividing,
    /// A bucket is on the list, but not counted among the buckets yet.
    Divided,
    /// A page is in the hands of a session that is about to empty it.
    Emptying,
}

#[cfg(any(test, feature = "hooks"))]
mod live {
    use super::Window;
    use std::cell::RefCell;

    type Hook = Box<dyn FnMut(Window)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Calls `hook` whenever this thread comes through a window, until the guard is dropped.
    pub fn set(hook: impl FnMut(Window) + 'static) -> Guard {
        HOOK.with(|cell| *cell.borrow_mut() = Some(Box::new(hook)));
        Guard
    }

    /// Removes the hook when dropped.
    #[derive(Debug)]
    #[must_use]
    pub struct Guard;

    impl Drop for Guard {
        fn drop(&mut self) {
            HOOK.with(|cell| *cell.borrow_mut() = None);
        }
    }

    pub fn pause(window: Window) {
        // The hook is taken out while it runs: what it calls comes through windows too.
        let taken = HOOK.with(|cell| cell.borrow_mut().take());
        if let Some(mut hook) = taken {
            hook(window);
            HOOK.with(|cell| *cell.borrow_mut() = Some(hook));
        }
    }
}

#[cfg(any(test, feature = "hooks"))]
pub use live::{Guard, pause, set};

/// Does nothing: there are no hooks in this build.
#[cfg(not(any(test, feature = "hooks")))]
#[inline(always)]
pub fn pause(_window: Window) {}
