//! Random operations on a worker's keys, each of them checked against the map.

use super::changing::If;
use super::plan::Memory;
use super::worker::{Share, Worker};
use crate::{Engine, Pace, Recency, Session};
use guira_sync::clock::Seconds;

impl<E: Engine> Worker<'_, E> {
    /// Stores an item under every key, while there is memory.
    pub(super) fn fill(&mut self) {
        self.begin();
        let Share { rest, of } = self.share;
        for key in (rest..self.plan.keys).step_by(of as usize) {
            self.store(key);
            self.check(key);
            if key % 32 == rest {
                self.session().quiesce();
            }
        }
        self.pause();
    }

    /// Executes this number of random operations.
    pub(super) fn run(&mut self, steps: usize) {
        self.begin();
        for _ in 0..steps {
            self.step += 1;
            self.look_at_clock();
            if self.turns.back_at.is_some_and(|step| step <= self.step) {
                self.switch_back();
            }
            let key = self.some_key();
            self.act(key);
            self.check(key);
            if self.step.is_multiple_of(32) {
                self.look_at_held();
            }
        }
        self.pause();
    }

    fn some_key(&mut self) -> u32 {
        let Share { rest, of } = self.share;
        // A few keys are used more often than the others.
        let most = if self.random.below(3) == 0 { self.plan.keys / 16 } else { self.plan.keys };
        self.random.below(u64::from(most / of)) as u32 * of + rest
    }

    fn act(&mut self, key: u32) {
        // An operation that needs memory may wait long and in vain for the batch of the other session to end.
        let waits = self.turns.back_at.is_some() && self.random.below(16) > 0;
        match if waits { 118 + self.random.below(66) } else { self.random.below(200) } {
            150..164 if waits => {}
            0..60 => self.store(key),
            60..68 => self.store_if(key, If::Found),
            68..76 => self.store_if(key, If::Missing),
            76..88 => self.join(key),
            88..108 => self.amend(key),
            108..118 => self.count(key),
            118..126 => self.remove(key),
            126..150 => {}
            150..156 => self.announce(key),
            156..164 => self.receive(),
            164..170 => self.pin(key),
            170..184 => self.maintain(),
            184..190 if self.turns.back_at.is_none() => self.switch(),
            190..196 => self.leave(),
            _ if self.share.rest == 0 => self.everywhere(),
            _ => {}
        }
    }

    /// Changes something that all workers share: flushes everything or a prefix, resizes the memory, or advances time.
    fn everywhere(&mut self) {
        match self.random.below(80) {
            0 if self.plan.is_alone() => {
                let at = Seconds(self.now.0 + self.random.below(4) as u32);
                self.engine.flush(self.now, at);
                self.model.flush(self.now, at);
            }
            1..6 if self.plan.memory == Memory::Changes => {
                let stats = self.engine.stats();
                let (least, most) = (self.world.memory / 2, stats.memory_reserve);
                let memory = least + self.random.below(most - least + 1);
                self.world.granted(memory);
                let limit =
                    if self.engine.resize(memory as usize).is_ok() { memory } else { stats.memory_limit };
                assert_eq!(self.engine.stats().memory_limit, limit);
            }
            6..40 => self.world.advance(),
            40..44 if self.plan.is_alone() => {
                let prefix = format!("full-{}", self.random.below(100)).into_bytes();
                if self.engine.flush_prefixes(self.now, &[&prefix]).is_ok() {
                    self.model.flush_prefix(self.now, &prefix);
                }
            }
            _ => {}
        }
    }

    /// Does a little maintenance, and may end the batch.
    fn maintain(&mut self) {
        let paces = [Pace::Busy, Pace::Crawl, Pace::Idle];
        let pace = paces[self.random.below(paces.len() as u64) as usize];
        let (budget, now) = (self.random.below(40) as usize, self.now);
        self.session().maintain(now, pace, budget);
        if self.random.below(2) == 0 {
            self.session().quiesce();
        }
    }

    /// Switches to the other session, if there is one. Now and then the batch of this session stays open, and it soon continues: until then, waiting
    /// for the end of the batch is in vain.
    fn switch(&mut self) {
        if self.turns.sessions.len() == 1 {
            return self.session().quiesce();
        }
        if !self.plan.gives_back(self.engine) && self.random.below(8) == 0 {
            self.turns.back_at = Some(self.step + 3);
        } else {
            self.session().offline();
        }
        self.turns.switch();
        self.session().online();
    }

    /// The session with the open batch continues, and the other waits for input.
    fn switch_back(&mut self) {
        self.turns.back_at = None;
        self.session().offline();
        self.turns.switch();
    }

    /// Goes offline, for a moment or for long, and online again.
    fn leave(&mut self) {
        self.session().offline();
        if self.random.below(2) == 0 {
            self.session().release_caches();
        }
        self.session().online();
    }

    /// Checks all keys. Returns the bytes that their items occupy, and the number of items.
    pub(super) fn check_all(&mut self) -> (usize, u64) {
        self.begin();
        let mut bytes = 0;
        let Share { rest, of } = self.share;
        for key in (rest..self.plan.keys).step_by(of as usize) {
            bytes += self.look(key, Recency::Leave);
        }
        self.pause();
        (bytes, self.model.keys(self.now).len() as u64)
    }

    pub(super) fn clear(&mut self) {
        self.begin();
        for key in self.model.keys(self.now) {
            self.remove(key);
        }
        self.pause();
    }
}
