//! Chooses the replacement policy (docs/develop/decisions/0053-auto.md) and divides memory among
//! item sizes, from a sample of the server's requests.
//!
//! ```text
//!  workers ──► Advisor ◄── PolicyController, on a thread of its own ──► PolicyControl
//!   (sampled requests)      (counters; asks for a better policy)         (the engine's switch)
//! ```
//!
//! | file | content |
//! |---|---|
//! | rhythm.rs | when the controller learns |
//! | owner.rs | whether the server chooses the policy, or an operator has |
//! | operator.rs | one change at a time: the controller's, or a command's |
//! | kept.rs | the policy across a restart or a takeover |

pub(crate) mod kept;
mod operator;
mod owner;
mod rhythm;

use crate::parts::Parts;
use crate::statistics::Statistics;
use guira_advice::{Advisor, Better, ChunkUse, Pulse, WhyBetter};
use guira_commands::CommandCount;
use guira_contract::{ClassStats, Control, EngineStats, PolicyError, Spec, Switch};
use guira_roster::{Policy, policy_control};
use guira_serving::Host;
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{CoarseClock, Seconds, process_cpu};
use guira_sync::lock::{Mutex, MutexGuard};
use operator::Operator;
pub(crate) use owner::{Owner, PolicyOwner};
use rhythm::{Due, LOOK_EVERY, PART, Rhythm};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Commands that needed an item and found it, as far as they are counted by class and seen by the
/// advisor.
const NEEDED: [CommandCount; 4] =
    [CommandCount::GetHits, CommandCount::IncrHits, CommandCount::DecrHits, CommandCount::CasHits];

/// Chooses the policy of an engine. One for all workers.
#[derive(Debug)]
pub(crate) struct PolicyController {
    control: Arc<dyn Control>,
    statistics: Arc<Statistics>,
    clock: CoarseClock,
    advisor: Option<Arc<Advisor>>,
    owner: Arc<PolicyOwner>,
    evictions: Switch,
    operator: Operator,
    /// When a flush that a client has scheduled reaches the sample; 0 for never. Relaxed: a second more or less.
    flush_at: AtomicU32,
    /// How often the server has changed the policy. Relaxed: a count.
    changes: AtomicU64,
    /// LOCK: last_change. Leaf.
    last: Mutex<Option<Change>>,
}

/// A change that the server has made, and why.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: Policy,
    to: Better,
}

/// The state of the controller, for `stats` and the admin listener.
pub(crate) struct Description {
    /// Whether the server chooses the policy.
    pub(crate) is_auto: bool,
    /// How often it has changed the policy.
    pub(crate) changes: u64,
    /// Why it has changed the policy last.
    pub(crate) reason: Option<String>,
}

/// The server has no advisor.
pub(crate) struct NothingLearnt;

impl PolicyController {
    pub(crate) fn new(control: Arc<dyn Control>, parts: &Parts) -> Self {
        let evictions = if parts.options.disable_evictions { Switch::Off } else { Switch::On };
        PolicyController {
            control,
            statistics: parts.statistics.clone(),
            clock: parts.clock.clone(),
            advisor: parts.observers.advisor.clone(),
            owner: parts.policy_owner.clone(),
            evictions,
            operator: Operator::default(),
            flush_at: AtomicU32::new(0),
            changes: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }

    /// Waits until no other change of the server is under way. The guard keeps others from beginning.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.operator.wait()
    }

    pub(crate) fn describe(&self) -> Description {
        Description {
            is_auto: self.is_auto(),
            changes: self.changes.load(Ordering::Relaxed),
            reason: self.last.lock().as_ref().map(Change::to_string),
        }
    }

    fn is_auto(&self) -> bool {
        self.advisor.is_some() && self.owner.now() == Owner::Server
    }

    /// The server chooses the policy from now on.
    pub(crate) fn begin_to_choose(&self) -> Result<(), NothingLearnt> {
        if self.advisor.is_none() {
            return Err(NothingLearnt);
        }
        self.owner.replace(Owner::Server);
        Ok(())
    }

    /// Switches to the policy that an operator has named. The server no longer chooses.
    pub(crate) fn switch_to(&self, policy: &Spec) -> Result<(), PolicyError> {
        // Before the switch, so that the server does not choose another policy at once.
        let previous = self.owner.replace(Owner::Operator);
        let switched = self.control.change_policy(policy);
        if switched.is_err() {
            self.owner.replace(previous);
        }
        switched
    }

    /// Reports the state at the start: empty, or a cache that evicts already.
    pub(crate) fn begin(&self) {
        self.pulse(self.clock.now());
    }

    /// Learns whenever that is due, until the server stops. Calls `each_second` once a second.
    pub(crate) fn run(&self, host: &Host, mut each_second: impl FnMut(Seconds)) {
        let mut rhythm = Rhythm::default();
        while !host.is_stopping() {
            let fine = self.clock.millis();
            let now = fine.seconds();
            let due = rhythm.due(now, fine, || self.control.stored_bytes());
            if due == Due::Second {
                each_second(now);
            }
            if due != Due::Nothing {
                rhythm.learnt(self.learn(now));
            }
            // Without an advisor there is only work of each second.
            let pause = if self.advisor.is_some() { LOOK_EVERY } else { SECOND };
            guira_sync::thread::park_timeout(pause);
        }
    }

    /// Adapts the policy and the division of memory to the sample. Returns the value of
    /// [`Control::stored_bytes`] at which it learns again.
    fn learn(&self, now: Seconds) -> u64 {
        let Some(capacity) = self.pulse(now) else {
            return u64::MAX;
        };
        self.choose();
        if let Some(advisor) = &self.advisor {
            self.control.weigh_sizes(&advisor.size_weights());
        }
        self.control.stored_bytes() + (capacity / PART) as u64
    }

    /// Gives the advisor the counters of the server. Returns the memory for items, in bytes; `None` without an advisor.
    pub(crate) fn pulse(&self, now: Seconds) -> Option<f64> {
        let advisor = self.advisor.as_ref()?;
        let flush_at = self.flush_at.load(Ordering::Relaxed);
        if flush_at != 0 && flush_at <= now.0 {
            // A command may have scheduled another flush.
            let _ = self.flush_at.compare_exchange(flush_at, 0, Ordering::Relaxed, Ordering::Relaxed);
            advisor.flush();
        }
        let sum = |what| self.statistics.command_sum(what);
        let stats = self.control.stats();
        let pulse = Pulse {
            now,
            // Without reads of touch, which the model does not see.
            reads: sum(CommandCount::CmdGet),
            hits: sum(CommandCount::GetHits),
            is_full: stats.is_full(),
            busy: process_cpu(),
            capacity: stats.item_capacity(),
            stored: self.control.stored_bytes(),
        };
        advisor.pulse(pulse, self.served(), &self.chunk_uses(&stats));
        Some(pulse.capacity)
    }

    /// The policy, if miniatures can have it.
    fn served(&self) -> Option<Policy> {
        match policy_control(&*self.control) {
            Some(engine) => Some(engine.policies().0),
            // Another engine may have a policy of the same name, as mica has fifo.
            None => Policy::read(&self.control.policy().0).ok(),
        }
    }

    fn chunk_uses(&self, stats: &EngineStats) -> Vec<ChunkUse> {
        let of_class = |class: &ClassStats| ChunkUse {
            chunk: class.chunk_size as usize,
            items: class.items,
            hits: NEEDED.iter().map(|what| self.statistics.class_sum(class.id, *what)).sum(),
        };
        stats.classes.iter().map(of_class).collect()
    }

    /// Changes to a policy that misses clearly less, if the server chooses.
    fn choose(&self) {
        // Without evictions no policy is better than another.
        if !self.is_auto() || self.evictions == Switch::Off {
            return;
        }
        let better = self.advisor.as_ref().and_then(|advisor| advisor.better());
        let Some((better, engine)) = better.zip(policy_control(&*self.control)) else { return };
        // A command that is under way may set the policy: the controller tries again when more was stored.
        let Some(_one_at_a_time) = self.operator.at_once() else { return };
        if !self.is_auto() {
            return;
        }
        let (from, next) = engine.policies();
        // While a policy takes over, or without memory for its notes, the controller tries again in a second.
        if next.is_some() || from == better.policy || engine.switch_to(better.policy).is_err() {
            return;
        }
        let change = Change { from, to: better };
        tracing::info!(policy = %better.policy, why = %change, "switching the replacement policy");
        self.changes.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(change);
    }

    /// Items stored now disappear at `at`.
    pub(crate) fn flush(&self, now: Seconds, at: Seconds) {
        if let Some(advisor) = &self.advisor {
            if at <= now {
                advisor.flush();
            } else {
                self.flush_at.store(at.0, Ordering::Relaxed);
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { from, to: Better { policy, why } } = self;
        match *why {
            WhyBetter::MemoryIsFull => {
                write!(
                    f,
                    "memory is full for the first time, and {policy} misses less of most requests than {from}"
                )
            }
            WhyBetter::MissesLess { reads, misses, present_misses } => {
                let share = |misses: u64| 100.0 * misses as f64 / reads.max(1) as f64;
                let (less, more) = (share(misses), share(present_misses));
                write!(f, "{policy} misses {less:.1} % of {reads} sampled reads, {from} {more:.1} %")
            }
        }
    }
}
