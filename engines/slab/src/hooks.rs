//! Windows that tests hold open. In a build without tests every call compiles to nothing.
//!
//! Some interleavings last nanoseconds. A test that wants to see what a reader does in one sets a hook; the writer
//! that comes through the window calls it and waits until it returns.

/// A place where a writer can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "hooks")), allow(dead_code))]
pub enum Window {
    /// An entry has left its bucket and has not yet arrived in the other.
    Displacing,
    /// A chunk holds the header and the key of a new item, and still the value of an old one.
    Refilling,
    /// A reader has found a slot with the right tag and is about to look at the item.
    Visiting,
    /// A reader has found an item with the right key and is about to copy it.
    Reading,
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

    pub(crate) fn pause(window: Window) {
        // The hook is taken out while it runs: what it calls comes through windows too.
        let taken = HOOK.with(|cell| cell.borrow_mut().take());
        if let Some(mut hook) = taken {
            hook(window);
            HOOK.with(|cell| *cell.borrow_mut() = Some(hook));
        }
    }
}

#[cfg(any(test, feature = "hooks"))]
pub(crate) use live::pause;
#[cfg(any(test, feature = "hooks"))]
pub use live::{Guard, set};

#[cfg(not(any(test, feature = "hooks")))]
#[inline(always)]
pub(crate) fn pause(_window: Window) {}
