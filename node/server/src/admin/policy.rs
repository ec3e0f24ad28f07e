//! Another replacement policy while the server runs: by command, or as a sample of the requests says.

use super::{Admin, Answer, Lines};
use crate::options::yes;
use guira_advice::{Better, WhyBetter};
use guira_contract::{PolicyError, Spec};
use guira_roster::AUTO;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use std::fmt;

/// What has come of the server's choosing the policy.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// How often it has. Relaxed: a count.
    changes: AtomicU64,
    /// LOCK: last_change. Leaf.
    last: Mutex<Option<Change>>,
}

/// A change that the server has chosen, and why.
#[derive(Clone, Debug)]
struct Change {
    from: Spec,
    to: Better,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.to.policy;
        match self.to.why {
            WhyBetter::MemoryIsFull => {
                write!(
                    f,
                    "memory is full for the first time, and {policy} misses less of most requests than {}",
                    self.from
                )
            }
            WhyBetter::MissesLess { reads, misses, present_misses } => {
                let share = |misses: u64| 100.0 * misses as f64 / reads.max(1) as f64;
                let (less, more) = (share(misses), share(present_misses));
                write!(f, "{policy} misses {less:.1} % of {reads} sampled reads, {} {more:.1} %", self.from)
            }
        }
    }
}

impl Chosen {
    fn last(&self) -> MutexGuard<'_, Option<Change>> {
        self.last.lock()
    }

    /// How often the server has changed the policy.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Why it has done so last.
    pub(super) fn reason(&self) -> Option<String> {
        self.last().as_ref().map(Change::to_string)
    }
}

impl Admin {
    /// Whether the server chooses the policy.
    pub(super) fn chooses_policy(&self) -> bool {
        self.shared.advisor.is_some() && self.shared.policy_is_left_to_server.load(Ordering::Relaxed)
    }

    /// What the engine is made of, for `stats settings`.
    pub(super) fn show_engine(&self, out: &mut Lines<'_>) {
        let (policy, next) = self.control.policy();
        out.stat("policy", policy);
        out.stat("policy_item_bytes", self.control.stats().policy_item_bytes);
        out.stat("policy_next", next.map_or("NULL".to_owned(), |next| next.to_string()));
        out.stat("policy_auto", yes(self.chooses_policy()));
        out.stat("policy_reason", self.chosen.reason().unwrap_or_else(|| "NULL".to_owned()));
        for (name, value) in self.settings.choice.settings() {
            out.stat(&name, value);
        }
    }

    /// `policy` shows the policy, `policy NAME key=value …` switches to another, and `policy auto` leaves it to the server.
    pub(super) fn policy(&self, words: &[&str]) -> Answer {
        let [name, options @ ..] = words else {
            let (policy, next) = self.control.policy();
            let next = next.map_or(String::new(), |next| format!(", and {next} is taking over"));
            let auto = if self.chooses_policy() { ", auto" } else { "" };
            return Answer::Line(format!("POLICY {policy}{next}{auto}"));
        };
        match Spec::of_words(name, options) {
            Ok(policy) if policy.name == AUTO && self.settings.choice.can_choose() => {
                self.choose_from_now_on(&policy)
            }
            Ok(policy) => self.switch_policy(&policy),
            Err(error) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }

    /// Has the server choose the policy from now on.
    fn choose_from_now_on(&self, auto: &Spec) -> Answer {
        if let Err(error) = auto.allow(&[]) {
            return Answer::Line(format!("CLIENT_ERROR {error}"));
        }
        if self.shared.advisor.is_none() {
            return "CLIENT_ERROR nothing is learnt from requests: advice is disabled, or there is too little memory".into();
        }
        self.shared.policy_is_left_to_server.store(true, Ordering::Relaxed);
        "OK".into()
    }

    /// Switches to another policy, or to the same with other options.
    pub(super) fn switch_policy(&self, policy: &Spec) -> Answer {
        // Before it is asked for, so that the server does not choose another one at once.
        let was_auto = self.shared.policy_is_left_to_server.swap(false, Ordering::Relaxed);
        let done = self.control.change_policy(policy);
        if done.is_err() {
            self.shared.policy_is_left_to_server.store(was_auto, Ordering::Relaxed);
        }
        match done {
            Ok(()) => {
                if self.log_limit.is_due(self.shared.clock.now()) {
                    tracing::info!(%policy, "switching the replacement policy");
                }
                "OK".into()
            }
            Err(PolicyError::Busy) => "BUSY another policy is taking over".into(),
            Err(error @ PolicyError::NoRoom) => Answer::Line(format!("SERVER_ERROR {error}")),
            Err(PolicyError::Option(error)) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }

    /// Changes to a policy that misses clearly less, if the server is to choose.
    pub(super) fn choose_policy(&self) {
        // Where nothing is evicted no policy is better than another.
        if !self.chooses_policy() || self.shared.options.disable_evictions {
            return;
        }
        let Some(better) = self.shared.advisor.as_ref().and_then(|advisor| advisor.better()) else { return };
        // A command that is under way may be about the policy: this is tried again when more was stored.
        let Some(_one_at_a_time) = self.operator.at_once() else { return };
        if !self.chooses_policy() {
            return;
        }
        let (from, next) = self.control.policy();
        // While one takes over, and while there is no room for its notes, it is tried again in a second.
        if next.is_some() || from == better.policy || self.control.change_policy(&better.policy).is_err() {
            return;
        }
        let change = Change { from, to: better };
        tracing::info!(policy = %change.to.policy, why = %change, "switching the replacement policy");
        self.chosen.changes.fetch_add(1, Ordering::Relaxed);
        *self.chosen.last() = Some(change);
    }
}
