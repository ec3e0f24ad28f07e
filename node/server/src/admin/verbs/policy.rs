//! `policy`: shows and sets the replacement policy while the server runs.

use super::answer::Answer;
use crate::admin::text::Lines;
use crate::auto::{NothingLearnt, PolicyController};
use crate::options::yes;
use guira_contract::{Control, PolicyError, Spec};
use guira_roster::{AUTO, Choice};
use guira_serving::RateLimited;
use guira_sync::clock::CoarseClock;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::admin) struct PolicyVerb {
    control: Arc<dyn Control>,
    choice: Choice,
    auto: Arc<PolicyController>,
    clock: CoarseClock,
    log_limit: Arc<RateLimited>,
}

impl PolicyVerb {
    pub(super) fn new(
        control: Arc<dyn Control>,
        choice: Choice,
        auto: Arc<PolicyController>,
        (clock, log_limit): (CoarseClock, Arc<RateLimited>),
    ) -> Self {
        PolicyVerb { control, choice, auto, clock, log_limit }
    }

    /// The lines of `stats settings` about the engine and its policy.
    pub(in crate::admin) fn show(&self, out: &mut Lines<'_>) {
        let (policy, next) = self.control.policy();
        let auto = self.auto.describe();
        out.stat("policy", policy);
        out.stat("policy_item_bytes", self.control.stats().policy_item_bytes);
        out.stat("policy_next", next.map_or("NULL".to_owned(), |next| next.to_string()));
        out.stat("policy_auto", yes(auto.is_auto));
        out.stat("policy_reason", auto.reason.unwrap_or_else(|| "NULL".to_owned()));
        for (name, value) in self.choice.settings() {
            out.stat(&name, value);
        }
    }

    /// `policy` shows the policy, `policy NAME key=value …` switches to another, and `policy auto` lets the server choose.
    pub(super) fn run(&self, words: &[&str]) -> Answer {
        let [name, options @ ..] = words else {
            let (policy, next) = self.control.policy();
            let next = next.map_or(String::new(), |next| format!(", and {next} is taking over"));
            let auto = if self.auto.describe().is_auto { ", auto" } else { "" };
            return Answer::Line(format!("POLICY {policy}{next}{auto}"));
        };
        match Spec::of_words(name, options) {
            Ok(policy) if policy.name == AUTO && self.choice.can_choose() => self.choose(&policy),
            Ok(policy) => self.switch(&policy),
            Err(error) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }

    /// `policy auto`, which has no options.
    fn choose(&self, auto: &Spec) -> Answer {
        if let Err(error) = auto.allow(&[]) {
            return Answer::Line(format!("CLIENT_ERROR {error}"));
        }
        match self.auto.begin_to_choose() {
            Ok(()) => "OK".into(),
            Err(NothingLearnt) => {
                "CLIENT_ERROR nothing is learnt from requests: advice is disabled, or there is too little memory"
                    .into()
            }
        }
    }

    /// Switches to another policy, or to the same with other options.
    pub(super) fn switch(&self, policy: &Spec) -> Answer {
        match self.auto.switch_to(policy) {
            Ok(()) => {
                if self.log_limit.is_due(self.clock.now()) {
                    tracing::info!(%policy, "switching the replacement policy");
                }
                "OK".into()
            }
            Err(PolicyError::Busy) => "BUSY another policy is taking over".into(),
            Err(error @ PolicyError::NoRoom) => Answer::Line(format!("SERVER_ERROR {error}")),
            Err(PolicyError::Option(error)) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }
}
