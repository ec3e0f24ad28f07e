//! One connection, with keys of its own, each answer held against the model.

use guira_workload::Rng;

use super::model::{Content, Model, Operation, Window};
use super::{KEYS, Keeping};
use crate::client::Client;
use crate::field::{Counters, Field};
use crate::speech::{Answer, Request, Verb};
use crate::value::{self, HEADER, Owner, Place, Segment};

/// Requests that are sent before answers are read, and their bytes: more might wait for each other.
const PIPELINE_MAX: u64 = 24;
const PIPELINE_BYTES: usize = 48 << 10;

/// The longest values, in a chain of chunks, and how long one may have become to be made longer.
const LONG_MAX: u64 = 60_000;
const GROWS_MAX: usize = 20_000;

const DIGITS_MAX: u64 = 17;

const REFUSED: &str = "checked: refused";

/// Which keys are whose: those whose number leaves this rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rest: u32,
    pub(super) of: u32,
}

#[derive(Debug)]
pub(super) struct Worker<'f> {
    field: &'f Field,
    client: Client,
    share: Share,
    pub(super) model: Model,
    random: Rng,
    sequence: u64,
    counters: Counters<'f>,
}

fn some_length(random: &mut Rng) -> usize {
    let most = if random.below(60) == 0 { LONG_MAX } else { 3_000 };
    HEADER + random.below(most - HEADER as u64) as usize
}

fn some_number(random: &mut Rng) -> u64 {
    let digits = 1 + random.below(DIGITS_MAX) as u32;
    random.below(10_u64.pow(digits))
}

/// Seconds to live; for ever mostly.
fn some_ttl(random: &mut Rng) -> u32 {
    match random.below(8) {
        0..3 => 1 + random.below(3) as u32,
        3 => 20,
        _ => 0,
    }
}

impl<'f> Worker<'f> {
    /// How many stores the server refused because memory was full.
    pub(super) fn refusals(&self) -> u64 {
        self.counters.count(REFUSED)
    }

    pub(super) fn new(field: &'f Field, client: Client, share: Share, keeping: Keeping, random: Rng) -> Self {
        let counters = field.counters();
        Worker { field, client, share, model: Model::new(keeping), random, sequence: 0, counters }
    }

    fn keys(&self) -> impl Iterator<Item = u32> + use<> {
        (self.share.rest..KEYS).step_by(self.share.of as usize)
    }

    /// Random requests until this moment of the run.
    pub(super) fn run(&mut self, until: u64) {
        while self.field.now() < until && self.field.goes_on() {
            let mut requests = Vec::new();
            let mut bytes = 0;
            let mut key = self.some_key();
            for _ in 0..=self.random.below(PIPELINE_MAX) {
                let verb = self.some_verb(key);
                requests.push(self.prepare(key, verb));
                bytes += requests.last().map_or(0, |(_, request)| request.value.len());
                if verb != Verb::Gets && self.random.below(3) == 0 {
                    requests.push(self.prepare(key, Verb::Gets));
                }
                // Every key once, since an append refers to the value before.
                key = (key + self.share.of) % KEYS;
                if bytes > PIPELINE_BYTES {
                    break;
                }
            }
            self.carry_out(&requests);
        }
    }

    pub(super) fn read_all(&mut self) {
        let keys: Vec<u32> = self.keys().collect();
        self.request_all(&keys, Verb::Gets);
    }

    /// Removes values that may expire, so that the remaining ones are certain.
    pub(super) fn remove_mortals(&mut self) {
        let mortals = self.model.mortals();
        self.request_all(&mortals, Verb::Delete);
    }

    pub(super) fn remove_all(&mut self) {
        let keys: Vec<u32> = self.keys().collect();
        self.request_all(&keys, Verb::Delete);
    }

    fn request_all(&mut self, keys: &[u32], verb: Verb) {
        for some in keys.chunks(PIPELINE_MAX as usize) {
            if !self.field.goes_on() {
                return;
            }
            let requests: Vec<_> = some.iter().map(|key| self.prepare(*key, verb)).collect();
            self.carry_out(&requests);
        }
    }

    fn some_key(&mut self) -> u32 {
        let Share { rest, of } = self.share;
        // Some keys are requested more often than others.
        let most = if self.random.below(2) == 0 { KEYS / 16 } else { KEYS };
        self.random.below(u64::from(most / of)) as u32 * of + rest
    }

    fn some_verb(&mut self, key: u32) -> Verb {
        let content = self.model.content(key);
        let grows = !matches!(content, Some(Content::Segments { length, .. }) if length > GROWS_MAX);
        match self.random.below(100) {
            0..36 => Verb::Set,
            36..46 => Verb::Delete,
            46..52 => Verb::Add,
            52..58 => Verb::Replace,
            58..74 if is_number(key) => Verb::Increment(some_number(&mut self.random)),
            58..68 if grows => Verb::Append,
            68..74 if grows => Verb::Prepend,
            74..79 => Verb::Touch,
            79..84 => Verb::Gat,
            _ => Verb::Gets,
        }
    }

    fn prepare(&mut self, key: u32, verb: Verb) -> (Operation, Request) {
        self.sequence += 1;
        let (owner, sequence) = (Owner { key, life: 0 }, self.sequence);
        let stores = matches!(verb, Verb::Set | Verb::Add | Verb::Replace);
        let ttl =
            if stores || matches!(verb, Verb::Touch | Verb::Gat) { some_ttl(&mut self.random) } else { 0 };
        let (mut bytes, mut content) = (Vec::new(), Content::Number(0));
        let place = match verb {
            Verb::Append => Some(Place::After),
            Verb::Prepend => Some(Place::Before),
            _ if stores => Some(Place::Base),
            _ => None,
        };
        match place {
            Some(_) if is_number(key) => {
                let number = some_number(&mut self.random);
                (bytes, content) = (number.to_string().into_bytes(), Content::Number(number));
            }
            Some(place) => {
                let before = match self.model.content(key) {
                    Some(Content::Segments { newest, .. }) if place != Place::Base => newest,
                    _ => 0,
                };
                let length = some_length(&mut self.random);
                value::write(&mut bytes, owner, Segment { place, sequence, before }, length);
                content = Content::Segments { newest: sequence, base: sequence, length };
            }
            None => {}
        }
        let flags = if stores { value::flags(owner, sequence) } else { 0 };
        let name = value::name("full", owner);
        (Operation { key, verb, ttl, flags, content }, Request { verb, name, value: bytes, flags, ttl })
    }

    fn carry_out(&mut self, all: &[(Operation, Request)]) {
        let requests: Vec<Request> = all.iter().map(|(_, request)| request.clone()).collect();
        let sent = self.field.now();
        let answers = match self.client.call(&requests) {
            Ok(answers) => answers,
            Err((_, error)) => {
                let which = format!("{:?} over {:?}", self.client.speech, self.client.carrier);
                return self.field.fail(format!("{which}: a connection broke: {error}"));
            }
        };
        let window = Window { sent, answered: self.field.now() };
        for ((operation, _), answer) in all.iter().zip(&answers) {
            self.counters.one(counted(answer));
            if let Err(what) = self.model.settle(operation, answer, window) {
                self.counters.one("wrong answers");
                return self.field.fail(format!("{:?}: {what}", self.client.speech));
            }
        }
    }
}

/// Whether a key holds a number.
fn is_number(key: u32) -> bool {
    key % 8 == 5
}

/// The name of an answer in the report.
fn counted(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done => "checked: done",
        Answer::NotStored => "checked: not stored",
        Answer::NotFound => "checked: not found",
        Answer::Number(_) => "checked: a number",
        Answer::Hit(_) => "checked: a value",
        Answer::Refused(_) => REFUSED,
        Answer::Exists | Answer::Strange(_) => "checked: strange",
    }
}
