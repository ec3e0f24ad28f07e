//! Coroutines, and their way back to the scheduler.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine as Inner, CoroutineResult, Yielder};
use std::cell::Cell;
use std::io;

/// Bytes of a stack. The system gives memory to the part that is used.
const STACK: usize = 1 << 20;

thread_local! {
    /// The yielder of the coroutine that runs; null in the scheduler.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// Work with a stack of its own.
pub(crate) struct Coroutine(Inner<(), (), (), DefaultStack>);

/// What a coroutine did when it was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It called [`suspend`].
    Suspended,
    Ended,
}

impl Coroutine {
    /// # Errors
    /// If the system has no memory for a stack.
    pub(crate) fn new(work: Box<dyn FnOnce()>) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        Ok(Coroutine(Inner::with_stack(stack, move |yielder, ()| {
            RUNNING.set(yielder);
            work();
        })))
    }

    /// Runs until the work suspends or ends.
    ///
    /// # Panics
    /// If the work does.
    pub(crate) fn resume(&mut self) -> Step {
        let step = match self.0.resume(()) {
            CoroutineResult::Yield(()) => Step::Suspended,
            CoroutineResult::Return(()) => Step::Ended,
        };
        RUNNING.set(std::ptr::null());
        step
    }
}

/// Goes back to the scheduler, until it resumes this coroutine.
///
/// # Panics
/// Outside of a coroutine.
pub(crate) fn suspend() {
    let yielder = RUNNING.get();
    assert!(!yielder.is_null(), "only a task can wait");
    // SAFETY: `RUNNING` is set by the coroutine that runs, from its own yielder, and reset whenever a coroutine stops
    // running; so the pointer is that of the caller's coroutine, whose frame with the yielder lies below the caller's.
    unsafe { (*yielder).suspend(()) };
    RUNNING.set(yielder);
}

/// Has work outlive what it borrows.
///
/// # Safety
/// The work must have ended, or never go on, before anything that it borrows ends.
pub(crate) unsafe fn extend<'w>(work: Box<dyn FnOnce() + 'w>) -> Box<dyn FnOnce()> {
    // SAFETY: the types differ in a lifetime only, for which the caller answers.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'w>, Box<dyn FnOnce()>>(work) }
}
