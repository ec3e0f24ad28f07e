//! Threads, with the face of std's: tasks of the scheduler.

use crate::coroutine;
use crate::lock::{Mutex, OnceLock};
use crate::scheduler::{self, Own, TaskId};
use crate::wait::Waiters;
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

pub use crate::scheduler::yield_now;

/// The result of a thread: what it returned, or what it panicked with.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send + 'static>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

#[derive(Debug)]
struct Shared {
    token: Mutex<bool>,
    parked: Waiters,
    name: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Thread(Arc<Shared>);

impl Thread {
    /// Wakes the thread if it is parked, or has its next [`park`] return at once.
    pub fn unpark(&self) {
        *self.0.token.lock() = true;
        self.0.parked.wake_all();
    }

    pub fn id(&self) -> ThreadId {
        ThreadId(Arc::as_ptr(&self.0).addr())
    }

    /// The name that it was started with.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

thread_local! {
    static HANDLES: Own<BTreeMap<TaskId, Thread>> = const { Own::new() };
}

/// The handles of all tasks of this world.
fn handles<R>(work: impl FnOnce(&mut BTreeMap<TaskId, Thread>) -> R) -> R {
    HANDLES.with(|handles| handles.with(|| {}, work))
}

fn handle(name: Option<String>) -> Thread {
    Thread(Arc::new(Shared { token: Mutex::new(false), parked: Waiters::new(), name }))
}

pub fn current() -> Thread {
    let task = scheduler::current();
    let name = scheduler::name_of(task);
    handles(|handles| handles.entry(task).or_insert_with(|| handle(Some(name))).clone())
}

/// Waits until the thread is unparked.
pub fn park() {
    park_for(None);
}

/// The same, at most for `limit`.
pub fn park_timeout(limit: Duration) {
    park_for(Some(limit));
}

fn park_for(limit: Option<Duration>) {
    let thread = current();
    if !std::mem::take(&mut *thread.0.token.lock()) {
        thread.0.parked.enter();
        thread.0.parked.wait(limit);
        *thread.0.token.lock() = false;
    }
}

pub fn sleep(time: Duration) {
    scheduler::wait(Some(time));
}

pub fn panicking() -> bool {
    std::thread::panicking()
}

/// Two processors.
///
/// # Errors
/// None.
pub fn available_parallelism() -> io::Result<NonZero<usize>> {
    Ok(NonZero::new(2).expect("it is not 0"))
}

#[derive(Debug)]
pub struct JoinHandle<T> {
    result: Slot<T>,
    thread: Thread,
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// Not: the result is taken once.
    pub fn join(self) -> Result<T> {
        self.result.wait().lock().take().expect("it is joined once")
    }

    pub fn is_finished(&self) -> bool {
        self.result.get().is_some()
    }

    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(work).expect("a task needs no system")
}

#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// Without a name.
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn name(self, name: String) -> Self {
        Builder { name: Some(name) }
    }

    /// A stack has one size here.
    #[must_use]
    pub fn stack_size(self, _size: usize) -> Self {
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// None.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let (work, result) = with_result(work);
        Ok(JoinHandle { result, thread: self.start(work) })
    }

    fn start(self, work: impl FnOnce() + 'static) -> Thread {
        let thread = handle(self.name.clone());
        let name = self.name.unwrap_or_else(|| "thread".to_owned());
        let task = scheduler::spawn_in(scheduler::current_process(), name, work);
        handles(|handles| handles.insert(task, thread.clone()));
        scheduler::point();
        thread
    }
}

/// Where the result of a thread is put.
type Slot<T> = Arc<OnceLock<Mutex<Option<Result<T>>>>>;

/// Work that puts its result into a slot.
fn with_result<T>(work: impl FnOnce() -> T) -> (impl FnOnce(), Slot<T>) {
    let result = Slot::default();
    let set = result.clone();
    let work = move || {
        let value = catch_unwind(AssertUnwindSafe(work));
        if let Err(panic) = &value {
            scheduler::note_panic(&**panic);
        }
        let _ = set.set(Mutex::new(Some(value)));
    };
    (work, result)
}

#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    running: Mutex<Vec<Arc<OnceLock<()>>>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// The end of a thread of a scope.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    _scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// What the thread panicked with.
    pub fn join(self) -> Result<T> {
        self.handle.join()
    }

    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Threads that may borrow from the caller: all have ended when this returns.
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope { running: Mutex::new(Vec::new()), _scope: PhantomData, _env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| work(&scope)));
    loop {
        let Some(thread) = scope.running.lock().pop() else { break };
        thread.wait();
    }
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl<'scope> Scope<'scope, '_> {
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        Builder::new().spawn_scoped(self, work).expect("a task needs no system")
    }
}

impl Builder {
    /// Starts a thread of a scope.
    ///
    /// # Errors
    /// None.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let ended = Arc::new(OnceLock::new());
        scope.running.lock().push(ended.clone());
        let (work, result) = with_result(work);
        let work = Box::new(move || {
            work();
            let _ = ended.set(());
        });
        // SAFETY: `scope` does not return before `ended` is set, which is the last that the work does; a process that is
        // killed before keeps the stack of `scope`, with all that the work borrows from it, for ever.
        let work = unsafe { coroutine::extend(work) };
        Ok(ScopedJoinHandle { handle: JoinHandle { result, thread: self.start(work) }, _scope: PhantomData })
    }
}
