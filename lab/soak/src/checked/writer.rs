//! Writers: each owns its share of the keys, and changes them in every way there is.

use guira_workload::Rng;

use super::Clients;
use super::reader::judge_hit;
use crate::field::{Counters, Field};
use crate::history::{Claim, History, Kind};
use crate::speech::{Answer, Request, Verb};
use crate::value::{self, HEADER, Owner, Place, Segment};

const VALUE_MAX: usize = (1 << 20) - 1;

/// A value longer than this may be refused: an item counts with its key and header.
const SURE_MAX: usize = VALUE_MAX - 512;

/// Bytes that are sent before answers are read; more might wait for each other.
const PIPELINE_BYTES: usize = 48 << 10;

/// Requests that are sent before answers are read.
const PIPELINE_MAX: u64 = 24;

#[derive(Debug)]
struct Write {
    owner: Owner,
    /// 0 if it changes no value.
    sequence: u64,
    request: Request,
    /// The key certainly held nothing when the write began.
    gone: bool,
    /// The value that was there could expire.
    mortal: bool,
    /// How long the value will be, and the number of its base.
    length: usize,
    base: u64,
    /// The claim that a read sent with the write is checked against.
    claim: Claim,
}

#[derive(Debug)]
pub(crate) struct Writer<'f> {
    field: &'f Field,
    history: &'f History,
    keys: Vec<usize>,
    random: Rng,
    counters: Counters<'f>,
}

/// Seconds to live of a value.
fn some_ttl(random: &mut Rng, kind: Kind) -> u32 {
    let once_in = if kind == Kind::Warm { 40 } else { 6 };
    if random.below(once_in) == 0 { 1 + random.below(4) as u32 } else { 0 }
}

fn some_length(random: &mut Rng, kind: Kind) -> usize {
    let limit = match random.below(100) {
        0 => return 0,
        _ if kind == Kind::Warm => 400,
        1..60 => 200,
        60..90 => 4 << 10,
        90..97 => 40 << 10,
        97 => return VALUE_MAX - random.below(600) as usize,
        _ => VALUE_MAX as u64,
    };
    HEADER + random.below(limit - HEADER as u64) as usize
}

impl<'f> Writer<'f> {
    /// The writer `number` of `all`.
    pub(crate) fn new(
        field: &'f Field,
        history: &'f History,
        number: usize,
        all: usize,
        random: Rng,
    ) -> Self {
        let keys = (0..history.len()).filter(|key| key % all == number).collect();
        Writer { field, history, keys, random, counters: field.counters() }
    }

    /// Writes until the run ends.
    pub(crate) fn run(mut self) {
        let Some(mut clients) = Clients::open(self.field, &mut self.random) else { return };
        while self.field.goes_on() {
            let index = clients.pick(&mut self.random);
            let goes_on = if self.random.below(12) == 0 {
                self.compare_and_set(&mut clients, index)
            } else {
                self.batch(&mut clients, index)
            };
            if goes_on.is_none() {
                return;
            }
        }
    }

    /// Some writes, sent together.
    fn batch(&mut self, clients: &mut Clients<'_>, index: usize) -> Option<()> {
        let count = 1 + self.random.below(PIPELINE_MAX) as usize;
        let start = self.random.below(self.keys.len() as u64) as usize;
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for step in 0..count.min(self.keys.len()) {
            let key = self.keys[(start + step) % self.keys.len()];
            let verb = self.some_verb(key);
            let write = self.prepare(key, verb);
            bytes += write.request.value.len() + write.request.name.len();
            // Long reads count like writes, since they take as long to send.
            let reads = verb == Verb::Gat && self.history.log(key).length > PIPELINE_BYTES;
            writes.push(write);
            if bytes > PIPELINE_BYTES || reads {
                break;
            }
        }
        self.carry_out(clients, index, writes).map(|_| ())
    }

    /// Reads a cas unique and stores with it; and with one that is no more.
    fn compare_and_set(&mut self, clients: &mut Clients<'_>, index: usize) -> Option<()> {
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize];
        let read = self.prepare(key, Verb::Gets);
        let answers = self.carry_out(clients, index, vec![read])?;
        let [Answer::Hit(hit)] = &answers[..] else { return Some(()) };
        if hit.cas == 0 {
            self.field.fail(format!("key {key}: a cas unique of 0"));
            return None;
        }
        let write = self.prepare(key, Verb::Cas(hit.cas));
        let answers = self.carry_out(clients, index, vec![write])?;
        match &answers[..] {
            [Answer::Exists] => {
                let story = self.history.log(key).story();
                self.field.fail(format!("key {key}: cas {} is another, without a write: {story}", hit.cas));
                return None;
            }
            [Answer::Done] => {}
            _ => return Some(()),
        }
        let write = self.prepare(key, Verb::Cas(hit.cas));
        let answers = self.carry_out(clients, index, vec![write])?;
        if let [Answer::Done] = &answers[..] {
            let story = self.history.log(key).story();
            self.field.fail(format!("key {key}: cas {} stored twice: {story}", hit.cas));
            return None;
        }
        Some(())
    }

    /// Sends writes and settles them with their answers.
    fn carry_out(
        &mut self,
        clients: &mut Clients<'_>,
        index: usize,
        writes: Vec<Write>,
    ) -> Option<Vec<Answer>> {
        let requests = writes.iter().map(|write| write.request.clone()).collect::<Vec<_>>();
        let (answers, error) = match clients.get(index).call(&requests) {
            Ok(answers) => (answers, None),
            Err((answers, error)) => (answers, Some(error)),
        };
        for (write, answer) in writes.iter().zip(&answers) {
            self.settle(write, answer);
        }
        for write in &writes[answers.len()..] {
            let mut log = self.history.log(write.owner.key as usize);
            log.remember(self.field.now(), write.sequence, write.request.verb.name(), "no answer");
            log.give_up();
        }
        match error {
            None => Some(answers),
            Some(error) => {
                clients.replace(index, &error)?;
                Some(Vec::new())
            }
        }
    }

    fn some_verb(&mut self, key: usize) -> Verb {
        let kind = self.history.kind(key);
        let log = self.history.log(key);
        // Commands on missing items must fail, which is tested too, but mostly the item should
        // exist.
        if log.is_gone(self.field.now()) && self.random.below(10) < 7 {
            return Verb::Set;
        }
        let length = log.length;
        drop(log);
        let grows = length > 0 && length < SURE_MAX / 2;
        match (kind, self.random.below(20)) {
            (_, 0) => Verb::Add,
            (_, 1) => Verb::Replace,
            (_, 2) => Verb::Delete,
            (_, 3) => Verb::Touch,
            (_, 4) => Verb::Gat,
            (Kind::Up, 5..16) => Verb::Increment(0),
            (Kind::Down, 5..16) => Verb::Decrement(0),
            (Kind::Warm | Kind::Bulk, 5..8) if grows => Verb::Append,
            (Kind::Warm | Kind::Bulk, 8..11) if grows => Verb::Prepend,
            _ => Verb::Set,
        }
    }

    /// Announces a write and makes its request.
    fn prepare(&mut self, key: usize, verb: Verb) -> Write {
        let (field, history, kind) = (self.field, self.history, self.history.kind(key));
        let (owner, now) = (history.owner(key), field.now());
        let claim = history.claim(key, now);
        let mut log = history.log(key);
        let (gone, mortal, before) = (log.is_gone(now), log.is_mortal(), log.acknowledged());
        let ttl = some_ttl(&mut self.random, kind);
        let changes = !matches!(verb, Verb::Touch | Verb::Gat | Verb::Gets);
        let sequence = if changes { log.announce() } else { 0 };
        if matches!(verb, Verb::Touch | Verb::Gat) {
            log.unsettle_life();
        }
        let request = Request { verb, name: history.name(owner), value: Vec::new(), flags: 0, ttl };
        let mut write =
            Write { owner, sequence, request, gone, mortal, length: log.length, base: log.base, claim };
        let stores = matches!(verb, Verb::Set | Verb::Add | Verb::Replace | Verb::Cas(_));
        match kind {
            Kind::Up | Kind::Down => {
                let number = history.number(owner, sequence);
                let by = number.abs_diff(history.number(owner, before));
                match verb {
                    Verb::Increment(_) => write.request.verb = Verb::Increment(by),
                    Verb::Decrement(_) => write.request.verb = Verb::Decrement(by),
                    _ if stores => write.request.value = number.to_string().into_bytes(),
                    _ => {}
                }
            }
            Kind::Warm | Kind::Bulk if stores => {
                let length = some_length(&mut self.random, kind);
                if length == 0 {
                    log.announce_empty(sequence);
                } else {
                    let segment = Segment { place: Place::Base, sequence, before: 0 };
                    value::write(&mut write.request.value, owner, segment, length);
                }
                (write.length, write.base) = (length, sequence);
                write.request.flags = value::flags(owner, sequence);
            }
            Kind::Warm | Kind::Bulk => {
                let place = match verb {
                    Verb::Append => Place::After,
                    Verb::Prepend => Place::Before,
                    _ => return write,
                };
                let most = if self.random.below(30) == 0 { 30 << 10 } else { 200 };
                let length = HEADER + self.random.below(most) as usize;
                value::write(&mut write.request.value, owner, Segment { place, sequence, before }, length);
                write.length += length;
            }
        }
        write
    }

    /// Records an answer, and reports an impossible one.
    fn settle(&mut self, write: &Write, answer: &Answer) {
        let verb = write.request.verb;
        self.counters.one(counted(verb));
        let key = write.owner.key as usize;
        if let (Verb::Gets | Verb::Gat, Answer::Hit(hit)) = (verb, answer) {
            judge_hit(self.field, self.history, write.claim, hit, &mut self.counters);
        }
        let now = self.field.now();
        let mut log = self.history.log(key);
        log.remember(now, write.sequence, verb.name(), answer.name());
        let did = matches!(answer, Answer::Done | Answer::Hit(_) | Answer::Number(_));
        let creates = matches!(verb, Verb::Set | Verb::Add);
        let mut wrong = (write.gone && did && !creates).then(|| "it was gone before".to_owned());
        match (verb, answer) {
            (Verb::Delete, Answer::Done | Answer::NotFound) => log.removed(write.sequence),
            (Verb::Touch | Verb::Gat, Answer::Done | Answer::Hit(_)) => log.lives(now, write.request.ttl),
            (Verb::Touch | Verb::Gat, Answer::NotFound) if !write.mortal => log.lost(),
            (Verb::Gets, Answer::Hit(_)) | (Verb::Touch | Verb::Gat, Answer::NotFound) => {}
            (Verb::Append | Verb::Prepend, Answer::Done) => log.stored(write.sequence, write.length),
            (Verb::Increment(_) | Verb::Decrement(_), Answer::Number(number)) => {
                let right = self.history.number(write.owner, write.sequence);
                if *number != right {
                    wrong = Some(format!("{number} instead of {right}"));
                }
                log.stored(write.sequence, write.length);
            }
            (Verb::Set | Verb::Add | Verb::Replace | Verb::Cas(_), Answer::Done) => {
                log.stored(write.sequence, write.length);
                log.base = write.base;
                log.lives(now, write.request.ttl);
            }
            (Verb::Add, Answer::NotStored) if write.gone => wrong = Some("something was there".to_owned()),
            (Verb::Add, Answer::NotStored) | (Verb::Cas(_), Answer::Exists) => {}
            (Verb::Replace | Verb::Append | Verb::Prepend, Answer::NotStored) => log.was_missing(),
            (Verb::Cas(_) | Verb::Gets | Verb::Increment(_) | Verb::Decrement(_), Answer::NotFound) => {
                log.was_missing();
            }
            (_, Answer::Refused(what)) if !what.contains("large") || write.length > SURE_MAX => {
                // As in memcached, the previous item may have been removed.
                log.unsettle_life();
                let long = what.contains("large");
                self.counters.one(if long { "refused: too long" } else { "refused: no memory" });
            }
            _ => wrong = Some("that is no answer".to_owned()),
        }
        if let Some(what) = wrong {
            self.counters.one("wrong answers");
            self.field.fail(format!(
                "{} #{} of key {key} with {} bytes: {answer:?}: {what}; {}",
                verb.name(),
                write.sequence,
                write.length,
                log.story()
            ));
        }
    }
}

/// The name of a write in the report.
fn counted(verb: Verb) -> &'static str {
    match verb {
        Verb::Set => "checked set",
        Verb::Add => "checked add",
        Verb::Replace => "checked replace",
        Verb::Append => "checked append",
        Verb::Prepend => "checked prepend",
        Verb::Cas(_) => "checked cas",
        Verb::Delete => "checked delete",
        Verb::Touch => "checked touch",
        Verb::Gets => "checked gets before cas",
        Verb::Gat => "checked gat",
        Verb::Increment(_) => "checked incr",
        Verb::Decrement(_) => "checked decr",
    }
}
