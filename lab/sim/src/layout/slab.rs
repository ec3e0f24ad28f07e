//! The engine memc3, in process: its classes, pages, policies and index, with all that it charges to its memory.

use guira_contract::{
    Control, Decision, Engine, ItemSpec, ItemState, Key, NewItem, OptionError, Pace, Presence, Provision,
    Read, Session, Spec, Value, Walked,
};
use guira_memory::slab::PAGE_BYTES;
use guira_roster::AUTO;
use guira_slab::{
    CuckooEngine, EngineOptions, HugePages, OpenError, Policy, PolicyControl, SlabOptions, SlabSession,
};
use guira_workload::rng::mix64;
use std::time::Duration;

use guira_advice::{Advisor, ChunkUse, Observed, Pulse, Subjects, What};

use super::item::{KEY_BYTES, NEVER, Object, item_max, seconds};
use super::{Layout, Usage};
use crate::policy::Id;

const PAGE: u64 = PAGE_BYTES as u64;

/// Requests from one quiescent point to the next, and from one maintenance to the next: a batch, and some.
const BATCH: u64 = 16;
const MAINTAINED_EVERY: u64 = 64;
/// Steps of a maintenance. There is time for the crawler, which sets out every 30 seconds of the stream.
const STEPS: usize = 64;

/// The engine and its one session.
pub(super) struct Slab {
    engine: CuckooEngine,
    session: SlabSession<guira_slab::Cuckoo>,
    memory: u64,
    value: Vec<u8>,
    /// Bytes of the item of each key, as it was stored last.
    items: Vec<u64>,
    requests: u64,
    now: u32,
    /// When the item of each key expires.
    expiries: Vec<u32>,
    /// Chooses the policy or the division of memory, if the options leave that to it.
    advisor: Option<Advisor>,
    options: Options,
    /// Items and hits of each size.
    uses: Vec<ChunkUse>,
    reads: u64,
    hits: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// `None`: chosen by a sample of the requests.
    policy: Option<Policy>,
    division: Division,
}

/// How the engine divides memory among sizes of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// So that all items stay for the same time.
    Age,
    /// By hits, from a sample of the reads.
    Hits,
}

impl Options {
    /// `policy=NAME` and the policy's own, or `policy=auto`; `divide=hits` or `age`.
    ///
    /// # Errors
    /// If there is no such policy or option.
    pub(super) fn read(options: &Spec) -> Result<Self, OptionError> {
        let name = options.value("policy").unwrap_or("clock").to_owned();
        let own =
            options.options.iter().filter(|(key, _)| key != "policy" && key != "divide").cloned().collect();
        let division = match options.value("divide") {
            None | Some("hits") => Division::Hits,
            Some("age") => Division::Age,
            Some(value) => {
                return Err(OptionError::Value {
                    name: "divide".to_owned(),
                    value: value.to_owned(),
                    expected: "hits or age",
                });
            }
        };
        let spec = Spec { name, options: own };
        if spec.name == AUTO {
            spec.allow(&[])?;
            return Ok(Self { policy: None, division });
        }
        Ok(Self { policy: Some(Policy::read(&spec)?), division })
    }
}

/// Requests between two looks at what was learnt.
const PULSE_EVERY: u64 = 1000;
/// The simulator shows no families of keys.
const DELIMITER: u8 = b':';

impl Slab {
    /// An engine with `memory` bytes, for `keys` keys.
    ///
    /// # Errors
    /// If that is too little.
    pub(super) fn open(memory: u64, keys: usize, options: Options) -> Result<Self, OpenError> {
        let engine = EngineOptions {
            memory: memory as usize,
            max_item_size: item_max(memory),
            // Committed pages are counted by themselves, so that memory is divided alike at all sizes.
            huge_pages: Some(HugePages::No),
            ..EngineOptions::default()
        };
        let engine = CuckooEngine::open(SlabOptions {
            engine,
            policy: options.policy.unwrap_or_default(),
            ..SlabOptions::default()
        })?;
        let session = engine.session();
        let (value, items) = (vec![b'v'; item_max(memory)], vec![0; keys]);
        let budget = memory as usize / Advisor::MEMORY_PART;
        // Unused sizes need no distinction here.
        let of_size = |chunk| ChunkUse { chunk, items: 1, hits: 0 };
        let uses = engine.chunk_sizes().into_iter().map(of_size).collect();
        let learns = || Advisor::new(budget, DELIMITER, (Subjects::SizesAndPolicies, &engine.chunk_sizes()));
        let advisor = (options.policy.is_none() || options.division == Division::Hits).then(learns);
        Ok(Self {
            engine,
            session,
            memory,
            value,
            items,
            requests: 0,
            now: 0,
            expiries: vec![u32::MAX; keys],
            advisor,
            options,
            uses,
            reads: 0,
            hits: 0,
        })
    }

    fn requested(&mut self, now: u32) {
        self.now = now;
        self.requests += 1;
        if self.requests.is_multiple_of(BATCH) {
            self.session.quiesce();
        }
        if self.requests.is_multiple_of(MAINTAINED_EVERY) {
            self.session.maintain(seconds(now), Pace::Idle, STEPS);
        }
        if self.requests.is_multiple_of(PULSE_EVERY) {
            self.pulse();
        }
    }

    fn see(&mut self, id: Id, what: What) {
        let Some(advisor) = &self.advisor else { return };
        let hash = mix64(u64::from(id) + 1);
        if hash < advisor.threshold() {
            advisor.see(Observed { key: b"", hash, what }, seconds(self.now));
        }
    }

    /// What a server does once in a second.
    fn pulse(&mut self) {
        let Some(advisor) = &self.advisor else { return };
        let stats = self.engine.stats();
        let pulse = Pulse {
            now: seconds(self.now),
            reads: self.reads,
            hits: self.hits,
            is_full: stats.is_full(),
            // The simulator does not limit the time for samples.
            busy: Duration::from_secs(1_000_000).saturating_mul(self.now),
            capacity: stats.item_capacity(),
            stored: self.engine.stored_bytes(),
        };
        let (policy, next) = self.engine.policies();
        advisor.pulse(pulse, Some(policy), &self.uses);
        if self.options.division == Division::Hits {
            self.engine.weigh_sizes(&advisor.size_weights());
        }
        if self.options.policy.is_none()
            && next.is_none()
            && let Some(better) = advisor.better()
        {
            // Without memory for its notes the next pulse tries again.
            _ = self.engine.switch_to(better.policy);
        }
    }

    /// How many items a walk shows, and their bytes.
    fn walk(&mut self, now: u32) -> (u64, u64) {
        self.session.quiesce();
        let Some(mut walk) = self.session.begin_walk() else { return (0, 0) };
        let (mut count, mut bytes) = (0, 0);
        loop {
            let items = &self.items;
            let walked = self.session.walk(&mut walk, seconds(now), &mut |item| {
                count += 1;
                bytes += id_of(item.key).map_or(0, |id| items[id as usize]);
            });
            self.session.quiesce();
            match walked {
                Walked::More => {}
                Walked::Waiting => {
                    self.session.maintain(seconds(now), Pace::Idle, STEPS);
                }
                Walked::Done | Walked::Overrun => return (count, bytes),
            }
        }
    }
}

fn key_of(id: Id) -> [u8; KEY_BYTES] {
    id.to_le_bytes()
}

fn id_of(key: &[u8]) -> Option<Id> {
    key.try_into().ok().map(Id::from_le_bytes)
}

impl Layout for Slab {
    fn read(&mut self, id: Id, now: u32) -> bool {
        let bytes = key_of(id);
        let key = Key { bytes: &bytes, hash: self.session.hash(&bytes) };
        let guess = self.session.prefetch_item(key.hash);
        let read = self.session.read(key, guess, seconds(now), &mut Presence::default());
        self.reads += 1;
        self.hits += u64::from(read == Read::Hit);
        let (weight, expires) = (self.items[id as usize] as u32, self.expiries[id as usize]);
        if read == Read::Hit {
            let class = self.uses.partition_point(|size| size.chunk < weight as usize);
            let class = class.min(self.uses.len() - 1);
            self.uses[class].hits += 1;
        }
        self.see(id, if read == Read::Hit { What::Hit { weight, expires } } else { What::Miss });
        self.requested(now);
        read == Read::Hit
    }

    fn store(&mut self, id: Id, object: Object, now: u32) -> bool {
        let is_accepted = object.is_accepted(self.memory);
        if is_accepted {
            self.items[id as usize] = object.item_bytes();
            let value = &self.value[..object.value_bytes()];
            let new = NewItem {
                flags: 0,
                expiry: object.expiry(),
                cas: None,
                state: ItemState::NONE,
                value: Value::Bytes(value),
            };
            let bytes = key_of(id);
            let key = Key { bytes: &bytes, hash: self.session.hash(&bytes) };
            let provision = Provision::Item(ItemSpec::of(&new, value.len()));
            let guess = self.session.prefetch_item(key.hash);
            let stored =
                self.session.update(key, guess, seconds(now), provision, |_| Decision::Put(new)).is_ok();
            self.requested(now);
            if stored {
                let expires = if object.expires == NEVER { NEVER } else { seconds(object.expires).0 };
                self.expiries[id as usize] = expires;
                self.see(id, What::Stored { weight: object.item_bytes() as u32, expires });
                return true;
            }
        }
        // As the command layer does: nobody reads what is older than a refused value.
        self.remove(id, now);
        false
    }

    fn remove(&mut self, id: Id, now: u32) {
        let bytes = key_of(id);
        let key = Key { bytes: &bytes, hash: self.session.hash(&bytes) };
        let guess = self.session.prefetch_item(key.hash);
        let removed = self.session.update(key, guess, seconds(now), Provision::None, |item| match item {
            Some(_) => Decision::Remove,
            None => Decision::Keep,
        });
        self.see(id, What::Deleted);
        debug_assert_eq!(removed, Ok(()), "a removal needs no memory");
        self.requested(now);
    }

    /// The engine counts the items that it moves, not their bytes: they are taken to be as long as the others.
    fn moved(&self) -> u64 {
        let stats = self.engine.stats();
        let mean = stats.bytes as f64 / stats.items.max(1) as f64;
        (stats.items_rescued as f64 * mean) as u64
    }

    fn usage(&mut self, now: u32) -> Usage {
        let (alive, alive_bytes) = self.walk(now);
        let stats = self.engine.stats();
        let dead = if stats.items > alive { stats.bytes.saturating_sub(alive_bytes) } else { 0 };
        let of_classes = |bytes: &dyn Fn(&guira_contract::ClassStats) -> u64| -> u64 {
            stats.classes.iter().map(bytes).sum()
        };
        let used = of_classes(&|class| class.used_chunks * class.chunk_size);
        let free_chunks = of_classes(&|class| class.free_chunks * class.chunk_size);
        let left_over = of_classes(&|class| class.pages * (PAGE - class.chunks_per_page * class.chunk_size));
        let unused = self.memory.saturating_sub(stats.memory_used) + free_chunks + stats.pages_free * PAGE;
        let rounding = used.saturating_sub(stats.bytes) + left_over;
        Usage {
            live: (stats.bytes - dead) as f64,
            dead: dead as f64,
            rounding: rounding as f64,
            free: unused as f64,
            metadata: self.memory as f64 - (stats.bytes + rounding + unused) as f64,
        }
    }
}
