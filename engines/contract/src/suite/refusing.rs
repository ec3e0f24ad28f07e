//! A session that finds no memory on demand, and between whose calls others do something, for tests of what is built
//! on sessions.

use crate::{Decision, ItemView};
use crate::{
    ItemSpec, Key, KeyHash, Lossiness, Pace, Provision, Read, Session, Sink, StoreError, Walked, WalkedItem,
};
use guira_sync::clock::Seconds;

/// So many calls of a session are enough for any command. One that makes more would go on for ever.
const CALLS_MAX: usize = 50;

/// The first cas unique that such a session gives out. It differs from those that clients give.
pub const FIRST_UNIQUE: u64 = 5_000_000_000;

/// Which calls find no memory. They are counted from 0, and only those that may need some: updates, pending values, and pieces of pending values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// None.
    None,
    /// This one.
    Only(usize),
    /// This one and all that follow.
    From(usize),
}

/// When an update finds that there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before it looks at the item, if it knows what will be stored.
    Early,
    /// When it has been decided what is to be done, and that takes memory.
    Late,
}

/// Something that others do before one of the calls.
struct Intrusion {
    /// Before which call, counted from 0.
    call: usize,
    act: Box<dyn FnMut()>,
}

impl std::fmt::Debug for Intrusion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "before call {}", self.call)
    }
}

/// A session that refuses.
#[derive(Debug)]
pub struct Refusing<S> {
    session: S,
    refused: Refused,
    moment: Moment,
    /// Calls that may need memory.
    asked: usize,
    /// These and reads.
    calls: usize,
    unique: u64,
    /// What the calls are made for.
    command: String,
    intrusion: Option<Intrusion>,
}

impl<S> Refusing<S> {
    /// Around a session; it refuses nothing for now.
    pub fn new(session: S) -> Self {
        let (refused, moment, command) = (Refused::None, Moment::Late, String::new());
        Refusing {
            session,
            refused,
            moment,
            asked: 0,
            calls: 0,
            unique: FIRST_UNIQUE,
            command,
            intrusion: None,
        }
    }

    /// From now on these calls are refused, and counted anew. They are made for `command`, of which a panic will tell.
    pub fn refuse(&mut self, refused: Refused, moment: Moment, command: &str) {
        (self.refused, self.moment, self.asked, self.calls) = (refused, moment, 0, 0);
        command.clone_into(&mut self.command);
    }

    /// How many calls were made that may need memory.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// How many calls were made since [`Refusing::refuse`], reads among them.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// From now on calls are counted anew, and before this one others do something, once.
    pub fn intrude(&mut self, call: usize, act: Box<dyn FnMut()>) {
        self.calls = 0;
        self.intrusion = Some(Intrusion { call, act });
    }

    fn count(&mut self) {
        if let Some(mut intrusion) = self.intrusion.take_if(|intrusion| intrusion.call == self.calls) {
            (intrusion.act)();
        }
        self.calls += 1;
        assert!(self.calls <= CALLS_MAX, "{} does not end with {:?} refused", self.command, self.refused);
    }

    /// Whether the next call that may need memory is refused.
    fn refuses(&mut self) -> bool {
        self.count();
        let number = self.asked;
        self.asked += 1;
        match self.refused {
            Refused::None => false,
            Refused::Only(refused) => number == refused,
            Refused::From(first) => number >= first,
        }
    }
}

/// Whether a decision takes memory.
fn needs_memory(decision: &Decision<'_>, item: Option<&dyn ItemView>) -> bool {
    match decision {
        Decision::Put(_) => true,
        Decision::Amend(_) => item.is_some(),
        Decision::Keep | Decision::Remove => false,
    }
}

impl<S: Session> Session for Refusing<S> {
    type Pin = S::Pin;
    type Pending = S::Pending;
    type Guess = S::Guess;
    type Walk = S::Walk;

    const PREFETCH_STEPS: usize = S::PREFETCH_STEPS;
    const CLIENT_HASHES: bool = S::CLIENT_HASHES;

    fn lossiness(&self) -> Lossiness {
        self.session.lossiness()
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        self.session.hash(key)
    }

    fn prefetch_buckets(&self, hash: KeyHash) {
        self.session.prefetch_buckets(hash);
    }

    fn prefetch_item(&self, hash: KeyHash) -> S::Guess {
        self.session.prefetch_item(hash)
    }

    fn prefetch_next(&self, guess: S::Guess) -> S::Guess {
        self.session.prefetch_next(guess)
    }

    fn read<T: Sink<Pin = S::Pin>>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        now: Seconds,
        sink: &mut T,
    ) -> Read {
        self.count();
        self.session.read(key, guess, now, sink)
    }

    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        now: Seconds,
        provision: Provision<S::Pending>,
        mut decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        if !self.refuses() {
            return self.session.update(key, guess, now, provision, decide);
        }
        if self.moment == Moment::Early && matches!(provision, Provision::Item(_)) {
            return Err(StoreError::NoMemory);
        }
        let mut lacks_memory = false;
        self.session.update(key, guess, now, provision, |item| {
            let decision = decide(item);
            lacks_memory = needs_memory(&decision, item);
            if lacks_memory { Decision::Keep } else { decision }
        })?;
        if lacks_memory { Err(StoreError::NoMemory) } else { Ok(()) }
    }

    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<S::Pending, StoreError> {
        if self.refuses() { Err(StoreError::NoMemory) } else { self.session.begin_value(key, spec) }
    }

    fn extend(&mut self, pending: &mut S::Pending, bytes: &[u8]) -> Result<(), StoreError> {
        if self.refuses() { Err(StoreError::NoMemory) } else { self.session.extend(pending, bytes) }
    }

    fn inline_max(&self) -> usize {
        self.session.inline_max()
    }

    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        self.session.fits(key_len, spec)
    }

    fn next_cas(&mut self) -> u64 {
        self.unique += 1;
        self.unique - 1
    }

    fn quiesce(&mut self) {
        self.session.quiesce();
    }

    fn offline(&mut self) {
        self.session.offline();
    }

    fn release_caches(&mut self) {
        self.session.release_caches();
    }

    fn online(&mut self) {
        self.session.online();
    }

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.session.maintain(now, pace, budget)
    }

    fn begin_walk(&mut self) -> Option<S::Walk> {
        self.session.begin_walk()
    }

    fn walk(&mut self, walk: &mut S::Walk, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        self.session.walk(walk, now, see)
    }
}
