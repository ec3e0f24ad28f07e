//! Tasks, processes, time and choices.
//!
//! One task runs until it waits, or until a yield point lets another one run. Which one, the seed decides. Time moves a
//! little with each step, and to the next timer when no task can run.

use crate::coroutine::{self, Coroutine, Step};
use crate::generator::Random;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Decides every choice.
    pub seed: u64,
    /// One in this many yield points lets another task run; 1 for each.
    pub switch_every: u64,
    /// The most nanoseconds that a step takes.
    pub step_ns: u64,
    /// The run ends at this time at the latest.
    pub end: Duration,
}

impl Options {
    /// The usual run of a seed.
    pub fn of(seed: u64) -> Self {
        Options { seed, switch_every: 4, step_ns: 2_000, end: Duration::from_secs(3600) }
    }
}

#[derive(Debug)]
pub struct Outcome<R> {
    /// The result of the first task; `None` if that did not end in time.
    pub result: Option<R>,
    /// Differs if a choice differed.
    pub digest: u64,
    /// The time that has passed in the world.
    pub time: Duration,
    /// How often a task was resumed.
    pub steps: u64,
    /// Tasks that panicked: their names and messages.
    pub panics: Vec<(String, String)>,
    /// Tasks that waited when no task could run any more and no timer was left.
    pub stuck: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

/// A process of a world: tasks that end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(u32);

impl TaskId {
    pub(crate) fn number(self) -> i32 {
        self.0 as i32 + 1
    }
}

impl Process {
    pub(crate) fn number(self) -> u32 {
        self.0 + 1
    }
}

/// The right to wake a task once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    task: TaskId,
    round: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    ByTask,
    ByTime,
}

struct Task {
    name: String,
    process: Process,
    coroutine: Option<Coroutine>,
    round: u64,
    is_waiting: bool,
    woken: Woken,
}

enum Timer {
    Wake(Ticket),
    Thaw(Process),
    Call(Box<dyn FnOnce()>),
}

struct Due {
    at: u64,
    /// Timers of the same time go in the order in which they were set.
    number: u64,
    timer: Timer,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
struct Timers {
    queue: BinaryHeap<Reverse<Due>>,
    set: u64,
}

#[derive(Debug, Default)]
struct Fate {
    is_dead: bool,
    /// The tasks that would run if the process was not frozen.
    frozen: Option<Vec<TaskId>>,
}

struct World {
    options: Options,
    random: Random,
    now: u64,
    steps: u64,
    digest: u64,
    tasks: Vec<Task>,
    ready: Vec<TaskId>,
    running: Option<TaskId>,
    timers: Timers,
    processes: Vec<Fate>,
    /// Called for each process that is killed.
    at_ends: Vec<fn(Process)>,
    panics: Vec<(String, String)>,
}

thread_local! {
    static WORLDS: Cell<u64> = const { Cell::new(0) };
    /// The number of the world that runs; 0 if none does.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn with<R>(work: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| work(world.as_mut().expect("there is a world only within `run`")))
}

/// Runs `main` as the first task of a world, until it ends, nothing can run any more, or the time is over.
///
/// # Panics
/// Within another run of this thread, and if the system has no memory for a stack.
pub fn run<R: 'static>(options: Options, main: impl FnOnce() -> R + 'static) -> Outcome<R> {
    let world = World {
        random: Random::new(options.seed),
        options,
        now: 0,
        steps: 0,
        digest: 0,
        tasks: Vec::new(),
        ready: Vec::new(),
        running: None,
        timers: Timers::default(),
        processes: vec![Fate::default()],
        at_ends: Vec::new(),
        panics: Vec::new(),
    };
    WORLD.with_borrow_mut(|slot| assert!(slot.replace(world).is_none(), "a world runs already"));
    WORLDS.set(WORLDS.get() + 1);
    NUMBER.set(WORLDS.get());
    let result = std::rc::Rc::new(RefCell::new(None));
    let first = {
        let result = result.clone();
        spawn_in(Process(0), "main".to_owned(), move || {
            let value = main();
            *result.borrow_mut() = Some(value);
        })
    };
    while !has_ended(first) && step() {}
    let world = WORLD.take().expect("it was put there");
    NUMBER.set(0);
    let stuck = world.tasks.iter().filter(|task| task.is_waiting && task.coroutine.is_some());
    let is_stuck = result.borrow().is_none() && world.ready.is_empty() && world.timers.queue.is_empty();
    let outcome = Outcome {
        result: result.borrow_mut().take(),
        digest: world.digest,
        time: Duration::from_nanos(world.now),
        steps: world.steps,
        panics: world.panics,
        stuck: if is_stuck { stuck.map(|task| task.name.clone()).collect() } else { Vec::new() },
    };
    // Tasks that have not ended keep their stacks: to unwind them would run the product's code outside of a world.
    world.tasks.into_iter().for_each(|task| std::mem::forget(task.coroutine));
    outcome
}

fn has_ended(task: TaskId) -> bool {
    with(|world| world.tasks[task.0 as usize].coroutine.is_none() && world.running != Some(task))
}

/// One task runs until it waits. False if none can, or the time is over.
fn step() -> bool {
    let Some((task, mut coroutine)) = next() else { return false };
    let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume()));
    with(|world| {
        world.running = None;
        match result {
            Ok(Step::Suspended) if world.is_dead(task) => std::mem::forget(coroutine),
            Ok(Step::Suspended) => world.tasks[task.0 as usize].coroutine = Some(coroutine),
            Ok(Step::Ended) => {}
            Err(panic) => {
                let name = world.tasks[task.0 as usize].name.clone();
                world.panics.push((name, message(&*panic)));
            }
        }
    });
    true
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

fn next() -> Option<(TaskId, Coroutine)> {
    loop {
        let due = with(|world| {
            let timers = &mut world.timers.queue;
            let is_due =
                timers.peek().is_some_and(|Reverse(due)| due.at <= world.now || world.ready.is_empty());
            is_due.then(|| timers.pop()).flatten()
        });
        if let Some(Reverse(due)) = due {
            with(|world| world.now = world.now.max(due.at));
            if with(|world| world.now > world.options.end.as_nanos() as u64) {
                return None;
            }
            match due.timer {
                Timer::Wake(ticket) => with(|world| world.wake(ticket, Woken::ByTime)),
                Timer::Thaw(process) => with(|world| {
                    world
                        .ready
                        .extend(world.processes[process.0 as usize].frozen.take().into_iter().flatten());
                }),
                Timer::Call(call) => call(),
            }
            continue;
        }
        let chosen = with(World::choose)?;
        if let Some(found) = chosen {
            return Some(found);
        }
    }
}

impl World {
    /// Chooses a task that is ready. `None` if none is, or the time is over; `Some(None)` to choose again.
    fn choose(&mut self) -> Option<Option<(TaskId, Coroutine)>> {
        if self.ready.is_empty() || self.now > self.options.end.as_nanos() as u64 {
            return None;
        }
        let place = self.random.below(self.ready.len() as u64) as usize;
        let id = self.ready.swap_remove(place);
        let task = &mut self.tasks[id.0 as usize];
        let fate = &mut self.processes[task.process.0 as usize];
        if fate.is_dead {
            std::mem::forget(task.coroutine.take());
            return Some(None);
        }
        if let Some(frozen) = &mut fate.frozen {
            frozen.push(id);
            return Some(None);
        }
        let Some(coroutine) = task.coroutine.take() else { return Some(None) };
        self.now += 1 + self.random.below(self.options.step_ns);
        self.steps += 1;
        self.mix(u64::from(id.0) << 48 ^ self.now);
        self.running = Some(id);
        Some(Some((id, coroutine)))
    }

    fn mix(&mut self, value: u64) {
        self.digest = (self.digest.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    fn is_dead(&self, task: TaskId) -> bool {
        self.processes[self.tasks[task.0 as usize].process.0 as usize].is_dead
    }

    fn wake(&mut self, ticket: Ticket, woken: Woken) {
        let task = &mut self.tasks[ticket.task.0 as usize];
        if task.round == ticket.round && task.is_waiting {
            task.is_waiting = false;
            task.round += 1;
            task.woken = woken;
            self.ready.push(ticket.task);
        }
    }

    fn set_timer(&mut self, at: u64, timer: Timer) {
        self.timers.set += 1;
        self.timers.queue.push(Reverse(Due { at, number: self.timers.set, timer }));
    }
}

/// Starts a task in a process.
pub(crate) fn spawn_in(process: Process, name: String, work: impl FnOnce() + 'static) -> TaskId {
    // Boxed: the new stack has no room for large work at its begin.
    let coroutine = Coroutine::new(Box::new(work)).expect("memory for a stack");
    with(|world| {
        let id = TaskId(u32::try_from(world.tasks.len()).expect("fewer tasks"));
        let (round, is_waiting, woken) = (0, false, Woken::ByTask);
        world.tasks.push(Task { name, process, coroutine: Some(coroutine), round, is_waiting, woken });
        world.ready.push(id);
        id
    })
}

/// Starts a process, with a task that does `work`.
pub fn start(name: &str, work: impl FnOnce() + 'static) -> Process {
    let process = with(|world| {
        world.processes.push(Fate::default());
        Process(world.processes.len() as u32 - 1)
    });
    spawn_in(process, name.to_owned(), work);
    process
}

/// Ends a process at once, as SIGKILL does: no task of it runs any more, and nothing is dropped.
pub fn kill(process: Process) {
    let calls = with(|world| world.at_ends.clone());
    calls.into_iter().for_each(|call| call(process));
    with(|world| world.processes[process.0 as usize].is_dead = true);
    if with(|world| world.running.is_some_and(|task| world.is_dead(task))) {
        coroutine::suspend();
    }
}

/// Stops all tasks of a process for this long, as SIGSTOP or a paused machine does.
pub fn freeze(process: Process, time: Duration) {
    with(|world| {
        world.processes[process.0 as usize].frozen.get_or_insert_default();
        world.set_timer(world.now + time.as_nanos() as u64, Timer::Thaw(process));
    });
    point();
}

/// `call` is called for each process before it is killed.
pub(crate) fn at_end(call: fn(Process)) {
    with(|world| world.at_ends.push(call));
}

pub fn is_dead(process: Process) -> bool {
    with(|world| world.processes[process.0 as usize].is_dead)
}

/// The process of the task that runs.
pub fn current_process() -> Process {
    with(|world| world.running.map_or(Process(0), |task| world.tasks[task.0 as usize].process))
}

/// The task that runs.
///
/// # Panics
/// Outside of a task.
pub fn current() -> TaskId {
    with(|world| world.running.expect("a task runs"))
}

pub(crate) fn name_of(task: TaskId) -> String {
    with(|world| world.tasks[task.0 as usize].name.clone())
}

/// A number below `limit`, as the seed decides.
pub fn draw(limit: u64) -> u64 {
    with(|world| world.random.below(limit))
}

pub fn now() -> Duration {
    with(|world| Duration::from_nanos(world.now))
}

/// The time, if a world runs in this thread.
#[cfg(guira_simulated)]
pub(crate) fn now_in_world() -> Option<Duration> {
    let now = |world: &RefCell<Option<World>>| Some(world.try_borrow().ok()?.as_ref()?.now);
    WORLD.try_with(now).ok().flatten().map(Duration::from_nanos)
}

/// Adds an event to the digest, so that two runs differ if it does.
pub fn record(event: u64) {
    with(|world| world.mix(event));
}

/// Calls `work` in the scheduler after this time.
pub fn call_after(time: Duration, work: impl FnOnce() + 'static) {
    with(|world| world.set_timer(world.now + time.as_nanos() as u64, Timer::Call(Box::new(work))));
}

/// A yield point: another task may run.
pub fn point() {
    let switches = WORLD.with_borrow_mut(|world| {
        let Some(world) = world else { return false };
        world.running.is_some() && world.random.below(world.options.switch_every) == 0
    });
    if switches {
        yield_now();
    }
}

pub fn yield_now() {
    let running = WORLD.with_borrow_mut(|world| {
        let world = world.as_mut()?;
        world.ready.extend(world.running);
        world.running
    });
    if running.is_some() {
        coroutine::suspend();
    }
}

/// Notes that the task that runs has panicked.
pub(crate) fn note_panic(panic: &(dyn Any + Send)) {
    with(|world| {
        let task = world.running.expect("a task runs");
        let name = world.tasks[task.0 as usize].name.clone();
        world.panics.push((name, message(panic)));
    });
}

/// The ticket of the next wait of the task that runs.
pub(crate) fn ticket() -> Ticket {
    with(|world| {
        let task = world.running.expect("a task runs");
        Ticket { task, round: world.tasks[task.0 as usize].round }
    })
}

/// Waits until another task wakes this one, or for `limit`.
pub(crate) fn wait(limit: Option<Duration>) -> Woken {
    let ticket = ticket();
    with(|world| {
        world.tasks[ticket.task.0 as usize].is_waiting = true;
        if let Some(limit) = limit {
            let at = world.now.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
            world.set_timer(at, Timer::Wake(ticket));
        }
    });
    coroutine::suspend();
    with(|world| world.tasks[ticket.task.0 as usize].woken)
}

/// Wakes a task that waits with this ticket.
pub(crate) fn wake(ticket: Ticket) {
    // A guard may be dropped after the run.
    WORLD.with_borrow_mut(|world| {
        if let Some(world) = world {
            world.wake(ticket, Woken::ByTask);
        }
    });
}

/// State of a world that another module keeps. Each world begins with its default.
#[derive(Debug)]
pub(crate) struct Own<T>(RefCell<Option<(u64, T)>>);

impl<T: Default> Own<T> {
    pub(crate) const fn new() -> Self {
        Own(RefCell::new(None))
    }

    /// The state of this world. `begin` is called when it is made.
    pub(crate) fn with<R>(&self, begin: fn(), work: impl FnOnce(&mut T) -> R) -> R {
        let number = NUMBER.get();
        let mut slot = self.0.borrow_mut();
        // Values that are dropped after the world still find its state.
        if number != 0 && slot.as_ref().is_none_or(|(of, _)| *of != number) {
            *slot = Some((number, T::default()));
            begin();
        }
        work(&mut slot.get_or_insert_with(Default::default).1)
    }
}
