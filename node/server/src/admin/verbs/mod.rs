//! Commands about the server: `slabs`, `lru`, `lru_crawler`, `cache_memlimit`, `shutdown` and others. One file each; a
//! new one is a file, and a row in [`Verbs::run`].

mod answer;
mod certificates;
mod crawler;
mod debug;
mod lru;
mod memory_limit;
mod policy;
mod shutdown;
mod slabs;
mod watch;

pub(crate) use answer::Answer;

use crate::auto::PolicyController;
use crate::options::Options;
use crate::parts::Parts;
use answer::ERROR;
use crawler::Crawler;
use guira_contract::{Control, Switch};
use guira_protocol::AdminVerb;
use guira_roster::Choice;
use guira_serving::{Host, RateLimited};
use guira_sync::clock::CoarseClock;
use lru::Lru;
use memory_limit::MemoryLimit;
use policy::PolicyVerb;
use slabs::Slabs;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Verbs {
    pub(super) memory: MemoryLimit,
    pub(super) slabs: Slabs,
    pub(super) lru: Lru,
    pub(super) policy: Arc<PolicyVerb>,
    pub(super) crawler: Crawler,
    options: Arc<Options>,
    host: Arc<Host>,
    clock: CoarseClock,
    auto: Arc<PolicyController>,
}

impl Verbs {
    pub(super) fn new(
        control: &Arc<dyn Control>,
        parts: &Parts,
        choice: Choice,
        auto: Arc<PolicyController>,
    ) -> Self {
        // Clients must not be able to fill the log.
        let log_limit = Arc::new(RateLimited::every(1));
        let clock = parts.clock.clone();
        let policy =
            PolicyVerb::new(control.clone(), choice, auto.clone(), (clock.clone(), log_limit.clone()));
        let policy = Arc::new(policy);
        let dumping = if parts.options.disable_dumping { Switch::Off } else { Switch::On };
        Verbs {
            memory: MemoryLimit::new(control.clone(), parts, log_limit),
            slabs: Slabs::new(control.clone()),
            lru: Lru::new(control.clone(), policy.clone(), clock.clone()),
            policy,
            crawler: Crawler::new(control.clone(), dumping),
            options: parts.options.clone(),
            host: parts.host.clone(),
            clock,
            auto,
        }
    }

    pub(super) fn run(&self, verb: AdminVerb, rest: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(rest);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let changes = matches!(
            verb,
            AdminVerb::CacheMemlimit | AdminVerb::Slabs | AdminVerb::Policy | AdminVerb::LruCrawler
        );
        let _one_at_a_time = changes.then(|| self.auto.lock_changes());
        let switch = |is_on| if is_on { Switch::On } else { Switch::Off };
        match verb {
            AdminVerb::CacheMemlimit => self.memory.run(&words),
            AdminVerb::Slabs => self.slabs.run(&words),
            AdminVerb::Lru => self.lru.run(&words),
            AdminVerb::Policy => self.policy.run(&words),
            AdminVerb::LruCrawler => self.crawler.run(&words),
            AdminVerb::Watch => watch::run(switch(!self.options.disable_watch), &words),
            AdminVerb::RefreshCerts => certificates::run(&self.host, self.clock.now()),
            AdminVerb::Shutdown => shutdown::run(switch(self.options.enable_shutdown), &words),
            AdminVerb::Debugtime if self.options.test_commands => debug::time(&self.clock, &words),
            AdminVerb::Debugitem if self.options.test_commands => debug::item(&words),
            AdminVerb::Debugtime | AdminVerb::Debugitem => ERROR.into(),
        }
    }
}
