//! The history of every key: announced and acknowledged writes, and removals.
//!
//! Every key has one writer. It *announces* a sequence number before it writes, and *settles* it
//! when the reply has arrived. A reader *claims* a key before its request: it may read nothing
//! older than the last acknowledged value, nothing that was known to be gone, and nothing older
//! than any value that was read before; and nothing newer than the last value announced when the
//! reply arrives. A miss is always legal, but it settles something too: a value that was
//! acknowledged before the miss must never be read again.
//!
//! Time to live is measured by a clock of whole seconds that each worker reads once a round, so a value that is
//! about to expire may be missed on one connection and found on another an instant later. Misses of such values settle
//! nothing; they must be gone [`SLACK_MS`] after their time.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::value::{self, HIGH, Owner};

/// How long after its time a value may still be read: a second of the coarse clock, and rounds of a busy worker.
pub(crate) const SLACK_MS: u64 = 3_000;

/// Writes of each key that are remembered for the message of a failure.
const REMEMBERED: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Short values, few enough that all fit.
    Warm,
    /// Values of all lengths, more than fit in memory.
    Bulk,
    Up,
    Down,
}

/// The history of a key.
#[derive(Debug)]
pub(crate) struct Log {
    life: u32,
    /// The number of the last announced write.
    announced: u64,
    /// The number of the last write with a reply.
    settled: u64,
    /// The number of the last write that took effect.
    acknowledged: u64,
    /// Nothing up to this number may be read any more.
    dead: u64,
    /// The newest number that a reader has seen.
    seen: u64,
    /// The last write whose value was empty.
    empty: u64,
    /// The number of the store that the present value began with.
    pub(crate) base: u64,
    /// How long the present value is.
    pub(crate) length: usize,
    /// Whether and when the value expires, in milliseconds of the run.
    mortal: Mortal,
    /// The last writes: when, number, what, with what outcome.
    recent: VecDeque<(u64, u64, &'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mortal {
    No,
    /// The value expires, at a time that is not known yet.
    Some,
    /// The value must be gone after this moment.
    Until(u64),
}

/// The state against which a reader checks the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The key, in the life in which it was requested.
    pub(crate) owner: Owner,
    floor: u64,
    acknowledged: u64,
    announced: u64,
    mortal: bool,
    /// Whether the value would be found if nothing were ever evicted.
    expected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The key held nothing, as far as is known.
    AsKnown,
    Evicted,
}

#[derive(Debug)]
pub(crate) struct History {
    keys: Vec<(Kind, Mutex<Log>)>,
    prefix: String,
}

impl Log {
    fn new() -> Self {
        Log {
            life: 0,
            announced: 0,
            settled: 0,
            acknowledged: 0,
            dead: 0,
            seen: 0,
            empty: 0,
            base: 0,
            length: 0,
            mortal: Mortal::No,
            recent: VecDeque::new(),
        }
    }

    /// Begins a write: its number.
    pub(crate) fn announce(&mut self) -> u64 {
        self.announced += 1;
        self.announced
    }

    /// The number of the value that the key holds, if it holds one.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether the key certainly holds nothing at `now`.
    pub(crate) fn is_gone(&self, now: u64) -> bool {
        self.dead >= self.acknowledged || self.is_over(now)
    }

    fn is_over(&self, now: u64) -> bool {
        matches!(self.mortal, Mortal::Until(end) if now > end)
    }

    /// The write with this number has stored a value of `length` bytes.
    pub(crate) fn stored(&mut self, sequence: u64, length: usize) {
        self.acknowledged = sequence;
        self.length = length;
        if length == 0 {
            self.empty = sequence;
        }
    }

    /// An empty value is going to be stored with this number.
    pub(crate) fn announce_empty(&mut self, sequence: u64) {
        self.empty = sequence;
    }

    /// The write with this number has removed the value, or there was none.
    pub(crate) fn removed(&mut self, sequence: u64) {
        self.acknowledged = sequence;
        self.dead = sequence;
        self.mortal = Mortal::No;
    }

    /// The value was found to be gone by its writer.
    pub(crate) fn was_missing(&mut self) {
        if self.mortal == Mortal::No {
            self.dead = self.dead.max(self.acknowledged);
        }
    }

    /// The value, which could not expire, was found to be gone by its writer.
    pub(crate) fn lost(&mut self) {
        self.mortal = Mortal::No;
        self.was_missing();
    }

    /// The time to live is about to change.
    pub(crate) fn unsettle_life(&mut self) {
        self.mortal = Mortal::Some;
    }

    /// The value lives for `ttl` seconds from some moment up to `now`; for ever if that is 0.
    pub(crate) fn lives(&mut self, now: u64, ttl: u32) {
        self.mortal =
            if ttl == 0 { Mortal::No } else { Mortal::Until(now + u64::from(ttl) * 1000 + SLACK_MS) };
    }

    /// Whether the value is to expire.
    pub(crate) fn is_mortal(&self) -> bool {
        self.mortal != Mortal::No
    }

    /// The outcome of a write is unknown: the key begins a new life under another name.
    pub(crate) fn give_up(&mut self) {
        let (life, recent) = (self.life + 1, std::mem::take(&mut self.recent));
        *self = Log { life, recent, ..Log::new() };
    }

    /// Records the reply to a write.
    pub(crate) fn remember(&mut self, now: u64, sequence: u64, what: &'static str, outcome: &'static str) {
        self.settled = self.settled.max(sequence);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((now, sequence, what, outcome));
    }

    /// The last writes, for a person.
    pub(crate) fn story(&self) -> String {
        let writes = self.recent.iter();
        let writes =
            writes.map(|(now, sequence, what, outcome)| format!("{now}ms #{sequence} {what}: {outcome}"));
        let writes = writes.collect::<Vec<_>>().join("; ");
        format!(
            "life {}, announced {}, acknowledged {}, dead {}, seen {}, {:?}; {writes}",
            self.life, self.announced, self.acknowledged, self.dead, self.seen, self.mortal
        )
    }
}

impl History {
    /// The keys that `kinds` lists: kinds, and how many of each. All names begin with `prefix`.
    pub(crate) fn new(prefix: &str, kinds: &[(Kind, usize)]) -> Self {
        let keys = kinds.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        History { keys: keys.map(|kind| (kind, Mutex::new(Log::new()))).collect(), prefix: prefix.to_owned() }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn kind(&self, key: usize) -> Kind {
        self.keys[key].0
    }

    pub(crate) fn log(&self, key: usize) -> MutexGuard<'_, Log> {
        self.keys[key].1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of the key's present values.
    pub(crate) fn owner(&self, key: usize) -> Owner {
        Owner { key: key as u32, life: self.log(key).life }
    }

    pub(crate) fn name(&self, owner: Owner) -> Vec<u8> {
        value::name(&self.prefix, owner)
    }

    /// The claim of a reader that is about to send a request.
    pub(crate) fn claim(&self, key: usize, now: u64) -> Claim {
        let log = self.log(key);
        let over = if log.is_over(now) { log.acknowledged + 1 } else { 0 };
        let floor = log.acknowledged.max(log.dead + 1).max(log.seen).max(over);
        Claim {
            owner: Owner { key: key as u32, life: log.life },
            floor,
            acknowledged: log.acknowledged,
            announced: log.announced,
            mortal: log.is_mortal(),
            expected: floor == log.acknowledged && !log.is_mortal() && log.settled == log.announced,
        }
    }

    /// A reader has found nothing.
    pub(crate) fn missed(&self, claim: Claim) -> Missed {
        let mut log = self.log(claim.owner.key as usize);
        if log.life != claim.owner.life || claim.mortal || log.is_mortal() {
            return Missed::AsKnown;
        }
        // Unless its writer removed it while the reader was asking.
        let evicted = claim.expected && log.announced == claim.announced && log.dead < claim.acknowledged;
        log.dead = log.dead.max(claim.acknowledged);
        if evicted { Missed::Evicted } else { Missed::AsKnown }
    }

    /// A reader has found this value, with these flags.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn found(&self, claim: Claim, found: &[u8], flags: u32) -> Result<(), String> {
        let key = claim.owner.key as usize;
        let mut log = self.log(key);
        if log.life != claim.owner.life {
            return Ok(());
        }
        let wrong = |what: String, log: &Log| {
            let name = String::from_utf8_lossy(&self.name(claim.owner)).into_owned();
            Err(format!("{name}: {what}; {claim:?}; {}", log.story()))
        };
        if found.is_empty() && matches!(self.kind(key), Kind::Warm | Kind::Bulk) {
            let legal = log.empty >= claim.floor;
            return if legal { Ok(()) } else { wrong("an empty value was never stored".to_owned(), &log) };
        }
        let newest = match self.sequence(key, claim.owner, found, flags) {
            Ok(newest) => newest,
            Err(what) => return wrong(what, &log),
        };
        if newest > log.announced {
            return wrong(format!("#{newest} was read before it was stored"), &log);
        }
        if newest < claim.floor {
            return wrong(format!("#{newest} was read, which was gone before"), &log);
        }
        log.seen = log.seen.max(newest);
        Ok(())
    }

    fn sequence(&self, key: usize, owner: Owner, found: &[u8], flags: u32) -> Result<u64, String> {
        let kind = self.kind(key);
        if matches!(kind, Kind::Warm | Kind::Bulk) {
            let whole = value::check(owner, found)?;
            let right = value::flags(owner, whole.base);
            return if flags == right {
                Ok(whole.newest)
            } else {
                Err(format!("flags {flags}, not {right}"))
            };
        }
        let digits = std::str::from_utf8(found).ok().and_then(|text| text.trim_end().parse::<u64>().ok());
        let digits = digits.ok_or_else(|| format!("no number: {}", String::from_utf8_lossy(found)))?;
        value::check_number(owner, if kind == Kind::Up { digits } else { HIGH.saturating_sub(digits) })
    }

    /// The value of a number key after the write with this number.
    pub(crate) fn number(&self, owner: Owner, sequence: u64) -> u64 {
        let up = value::number(owner, sequence);
        if self.kind(owner.key as usize) == Kind::Up { up } else { HIGH - up }
    }

    /// The acknowledged value of each key; taken before everything is removed.
    pub(crate) fn snapshot(&self) -> Vec<(u32, u64)> {
        let state = |key| {
            let log = self.log(key);
            (log.life, log.acknowledged)
        };
        (0..self.len()).map(state).collect()
    }

    /// Everything in the snapshot is gone.
    pub(crate) fn forget(&self, snapshot: &[(u32, u64)]) {
        for (key, (life, acknowledged)) in snapshot.iter().enumerate() {
            let mut log = self.log(key);
            if log.life == *life {
                log.dead = log.dead.max(*acknowledged);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{HEADER, Place, Segment};

    fn history() -> History {
        History::new("test", &[(Kind::Warm, 1), (Kind::Up, 1), (Kind::Down, 1)])
    }

    fn stored(history: &History, key: usize) -> u64 {
        let mut log = history.log(key);
        let sequence = log.announce();
        log.stored(sequence, HEADER);
        log.remember(0, sequence, "set", "done");
        sequence
    }

    fn read(history: &History, claim: Claim, sequence: u64) -> Result<(), String> {
        let mut value = Vec::new();
        let segment = Segment { place: Place::Base, sequence, before: 0 };
        value::write(&mut value, claim.owner, segment, HEADER);
        history.found(claim, &value, value::flags(claim.owner, sequence))
    }

    #[test]
    fn nothing_older_than_what_was_acknowledged_or_seen_may_be_read() {
        let history = history();
        stored(&history, 0);
        let early = history.claim(0, 0);
        stored(&history, 0);
        assert_eq!(read(&history, early, 1), Ok(()));
        let late = history.claim(0, 0);
        assert!(read(&history, late, 1).is_err());
        assert!(read(&history, late, 3).is_err(), "it was not announced");
        let third = history.log(0).announce();
        assert_eq!(read(&history, late, third), Ok(()));
        assert!(read(&history, history.claim(0, 0), 2).is_err(), "something newer was seen");
    }

    #[test]
    fn what_was_missed_removed_or_flushed_never_comes_back() {
        let history = history();
        let first = stored(&history, 0);
        assert_eq!(history.missed(history.claim(0, 0)), Missed::Evicted);
        assert!(read(&history, history.claim(0, 0), first).is_err());
        assert_eq!(history.missed(history.claim(0, 0)), Missed::AsKnown);
        let second = stored(&history, 0);
        let removal = history.log(0).announce();
        history.log(0).removed(removal);
        assert!(read(&history, history.claim(0, 0), second).is_err());
        let fourth = stored(&history, 0);
        assert_eq!(read(&history, history.claim(0, 0), fourth), Ok(()));
        history.forget(&history.snapshot());
        assert!(read(&history, history.claim(0, 0), fourth).is_err());
    }

    #[test]
    fn what_expires_must_be_gone_after_its_time() {
        let history = history();
        let first = stored(&history, 0);
        history.log(0).lives(0, 2);
        assert_eq!(history.missed(history.claim(0, 0)), Missed::AsKnown);
        assert_eq!(read(&history, history.claim(0, 2_000 + SLACK_MS), first), Ok(()));
        assert!(read(&history, history.claim(0, 2_001 + SLACK_MS), first).is_err());
    }

    #[test]
    fn an_empty_value_needs_a_writer() {
        let history = history();
        stored(&history, 0);
        assert!(history.found(history.claim(0, 0), b"", 0).is_err());
        let sequence = history.log(0).announce();
        history.log(0).announce_empty(sequence);
        assert_eq!(history.found(history.claim(0, 0), b"", 0), Ok(()));
    }

    #[test]
    fn numbers_go_one_way() {
        let history = history();
        for key in [1, 2] {
            let sequence = stored(&history, key);
            let owner = history.owner(key);
            let text = history.number(owner, sequence).to_string();
            assert_eq!(history.found(history.claim(key, 0), text.as_bytes(), 0), Ok(()));
            stored(&history, key);
            assert!(history.found(history.claim(key, 0), text.as_bytes(), 0).is_err());
            assert!(history.found(history.claim(key, 0), b"17", 0).is_err());
        }
    }

    #[test]
    fn a_key_that_was_given_up_has_another_name() {
        let history = history();
        let claim = history.claim(0, 0);
        history.log(0).give_up();
        assert_ne!(history.name(claim.owner), history.name(history.owner(0)));
        assert_eq!(history.found(claim, b"anything", 0), Ok(()));
    }
}
