//! get, gets, gat, gats.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::observe::Got;
use crate::showing::{Change, Creation, ShownUpdate};
use crate::sight::{Plain, Sight, Vacancy};
use crate::uniques::Uniques;
use guira_contract::{
    Amendment, Decision, ItemView, Key, KeyHash, Meta, MissKind, Provision, Read, Recency, Session, Sink,
    StoreError, ValuePin, Want,
};
use guira_protocol::{Exptime, Replies, ReplyBuffer, Unique};

/// Length of a VALUE line without the key, and of what follows the value: the word, three numbers, blanks and line
/// ends.
const AROUND_VALUE: usize = 64;

/// How one key of a get was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "END does not follow an error"]
pub enum Answered {
    /// With the item, or with nothing on a miss.
    Wholly,
    /// With an error, which ends the reply: an update that the command needs finds no memory.
    Refused,
}

/// memcached's reply to a read that has to update the item and finds no memory.
pub(crate) const NO_MEMORY_FOR_READ: &str = "SERVER_ERROR out of memory writing get response";

#[cold]
fn refuse<R: Replies>(replies: &mut R) -> Answered {
    replies.buffer().line(NO_MEMORY_FOR_READ);
    Answered::Refused
}

/// Whether replies contain cas uniques. A type of its own for those that do not: a plain get then neither keeps nor tests what says so.
trait Showing: Copy {
    /// Whether an item may have to be given a unique first.
    const MAY_LACK: bool;

    /// The unique to show. `None` if replies contain none, or if the item has none and needs one.
    fn shown(self, cas: Option<u64>) -> Option<u64>;
}

/// get, gat
#[derive(Clone, Copy)]
struct Omitted;

/// gets, gats
#[derive(Clone, Copy)]
struct Shown(Uniques);

impl Showing for Omitted {
    const MAY_LACK: bool = false;

    #[inline(always)]
    fn shown(self, _cas: Option<u64>) -> Option<u64> {
        None
    }
}

impl Showing for Shown {
    const MAY_LACK: bool = true;

    #[inline(always)]
    fn shown(self, cas: Option<u64>) -> Option<u64> {
        self.0.shown(cas)
    }
}

/// Writes an item as `VALUE <key> <flags> <bytes> [<cas unique>]`, and its value.
struct ValueSink<'a, 'k, R, U> {
    replies: &'a mut R,
    key: &'k [u8],
    showing: U,
    /// Length of the buffer before the item.
    mark: usize,
    /// The reply contains the cas unique, and the item has none.
    lacks_unique: bool,
}

/// Writes the line before a value: VALUE, or LVALUE with a token.
pub(crate) fn put_value_line(
    buffer: &mut ReplyBuffer,
    key: &[u8],
    token: Option<u64>,
    (flags, length): (u32, usize),
) {
    buffer.put(if token.is_some() { b"LVALUE " } else { b"VALUE " });
    buffer.put(key);
    for number in token.into_iter().chain([u64::from(flags), length as u64]) {
        buffer.put(b" ");
        buffer.number(number);
    }
    buffer.put(b"\r\n");
}

/// Writes a value of `length` bytes and its line end.
pub(crate) fn put_value<I: ItemView>(buffer: &mut ReplyBuffer, item: &I, length: usize) {
    let mut writer = buffer.writer(length + 2);
    writer.block(length, |value| item.copy_value(0, value));
    let written = writer.written();
    buffer.keep(written);
}

impl<'a, 'k, R: Replies, U: Showing> ValueSink<'a, 'k, R, U> {
    #[inline(always)]
    fn new(key: &'k [u8], showing: U, replies: &'a mut R) -> Self {
        let mark = replies.buffer().len();
        ValueSink { replies, key, showing, mark, lacks_unique: false }
    }

    /// Whether the item has to be given a cas unique first.
    #[inline(always)]
    fn lacks_unique(&self) -> bool {
        U::MAY_LACK && self.lacks_unique
    }

    #[inline(always)]
    fn unique(&mut self, cas: Option<u64>) -> Option<u64> {
        let shown = self.showing.shown(cas);
        if U::MAY_LACK {
            self.lacks_unique = shown.is_none();
        }
        shown
    }

    #[inline(always)]
    fn head(
        &mut self,
        flags: u32,
        length: usize,
        cas: Option<u64>,
        most: usize,
    ) -> guira_protocol::Writer<'_> {
        let mut writer = self.replies.buffer().writer(most);
        if cas.is_none() && writer.short_value_line(self.key, flags, length) {
            return writer;
        }
        writer.put(b"VALUE ");
        writer.put(self.key);
        writer.put(b" ");
        writer.number(u64::from(flags));
        writer.put(b" ");
        writer.number(length as u64);
        if let Some(cas) = cas {
            writer.put(b" ");
            writer.number(cas);
        }
        writer.put(b"\r\n");
        writer
    }
}

impl<R: Replies<Pin: ValuePin>, U: Showing> Sink for ValueSink<'_, '_, R, U> {
    type Pin = R::Pin;

    fn wants(&self) -> Want {
        Want::Value
    }

    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        let cas = self.unique(item.cas());
        if self.lacks_unique() {
            return;
        }
        let length = item.value_len();
        let most = AROUND_VALUE + self.key.len() + length;
        let mut writer = self.head(item.flags(), length, cas, most);
        writer.block(length, |value| item.copy_value(0, value));
        let written = writer.written();
        self.replies.buffer().keep(written);
    }

    fn undo(&mut self) {
        self.replies.take_back(self.mark);
    }

    #[inline(always)]
    fn recency(&self) -> Recency {
        if self.lacks_unique() { Recency::Leave } else { Recency::Bump }
    }

    fn pinned(&mut self, meta: &Meta, pin: R::Pin) {
        let cas = self.unique(meta.cas);
        if self.lacks_unique() {
            return;
        }
        let most = AROUND_VALUE + self.key.len();
        let written = self.head(meta.flags, meta.value_len, cas, most).written();
        self.replies.buffer().keep(written);
        self.replies.pin(pin);
        self.replies.buffer().put(b"\r\n");
    }
}

impl<S: Session> Executor<S> {
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.session.hash(key)
    }

    /// The first stage of prefetching: the buckets.
    #[inline(always)]
    pub fn prefetch_hash(&self, hash: KeyHash) {
        self.session.prefetch_buckets(hash);
    }

    /// Hashes a key and starts the first stage of prefetching it.
    #[inline(always)]
    pub fn prefetch(&self, key: &[u8]) -> KeyHash {
        let hash = self.hash(key);
        self.prefetch_hash(hash);
        hash
    }

    /// The second stage of prefetching, some time after the first: the item.
    #[inline(always)]
    pub fn prefetch_item(&self, hash: KeyHash) -> S::Guess {
        self.session.prefetch_item(hash)
    }

    pub const PREFETCH_STEPS: usize = S::PREFETCH_STEPS;

    /// A further stage, some time after the previous one.
    #[inline(always)]
    pub fn prefetch_next(&self, guess: &mut S::Guess) {
        *guess = self.session.prefetch_next(*guess);
    }

    /// Answers one key of a get or gets. The caller writes END after the last key, unless one was refused.
    #[inline(always)]
    pub fn get<R>(&mut self, key: Key<'_>, guess: S::Guess, unique: Unique, replies: &mut R) -> Answered
    where
        R: Replies<Pin = S::Pin>,
    {
        match unique {
            Unique::Omitted => self.get_showing(key, guess, Omitted, replies),
            Unique::Shown => self.get_showing(key, guess, Shown(self.uniques), replies),
        }
    }

    /// Not inlined: its callers would spill registers.
    #[inline(never)]
    fn get_showing<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        showing: impl Showing,
        replies: &mut R,
    ) -> Answered
    where
        R: Replies<Pin = S::Pin>,
    {
        match self.show_value(key, guess, showing, replies) {
            Ok(Read::Hit) => {
                if self.count_hit() {
                    self.count_class(CommandCount::GetHits, key);
                }
                self.saw_get(key, Got::Found);
            }
            Ok(Read::Miss(kind)) => {
                self.count_miss(kind);
                self.saw_get(key, Got::Missed(kind));
            }
            Err(_) => return refuse(replies),
        }
        Answered::Wholly
    }

    /// Writes the item, if there is one. Gives it a cas unique first if the reply contains one and the item has none.
    #[inline(always)]
    fn show_value<R>(
        &mut self,
        key: Key<'_>,
        mut guess: S::Guess,
        showing: impl Showing,
        replies: &mut R,
    ) -> Result<Read, StoreError>
    where
        R: Replies<Pin = S::Pin>,
    {
        loop {
            let mut sink = Plain::new(ValueSink::new(key.bytes, showing, replies));
            let read = self.read(key, guess, &mut sink);
            if read != Read::Hit || !sink.sink.lacks_unique() {
                return Ok(read);
            }
            self.give_unique(key)?;
            guess = S::Guess::default();
        }
    }

    #[inline(never)]
    pub(crate) fn count_miss(&self, kind: MissKind) {
        self.count(CommandCount::CmdGet);
        self.count(CommandCount::GetMisses);
        match kind {
            MissKind::Absent => {}
            MissKind::Expired => self.count(CommandCount::GetExpired),
            MissKind::Flushed => self.count(CommandCount::GetFlushed),
        }
    }

    /// Gives an item a cas unique if it has none.
    pub(crate) fn give_unique(&mut self, key: Key<'_>) -> Result<(), StoreError> {
        let cas = self.session.next_cas();
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| match item {
            Some(item) if item.cas().is_none() => {
                Decision::Amend(Amendment { cas: Some(cas), ..Amendment::default() })
            }
            _ => Decision::Keep,
        };
        self.update(Sight::Hidden, key, Default::default(), Provision::None, decide)
    }

    /// Removes a key, but no tombstone. A removal stores nothing, so it cannot be refused.
    pub(crate) fn remove(&mut self, key: Key<'_>) {
        let removal = |_: Option<&dyn ItemView>, _: Vacancy| Decision::Remove;
        let _ = self.update(Sight::Hidden, key, Default::default(), Provision::None, removal);
    }

    /// Changes an item's expiry and shows the item, in one step.
    pub(crate) fn show_and_touch<T>(
        &mut self,
        key: Key<'_>,
        time: Exptime,
        unique: Unique,
        sink: &mut T,
    ) -> Result<Read, StoreError>
    where
        T: Sink<Pin = S::Pin>,
    {
        self.count(CommandCount::CmdTouch);
        let expiry = self.expiry(time);
        let change = if expiry.passed(self.now) {
            Change::Remove
        } else {
            let amendment =
                Amendment { expiry: Some(expiry), recency: Recency::Bump, ..Amendment::default() };
            Change::Amend(amendment)
        };
        let wants = sink.wants();
        let read = self.change_and_show(key, unique, sink, &mut FixedChange(change))?;
        match read {
            Read::Hit => {
                self.count(CommandCount::TouchHits);
                self.sample(CommandCount::TouchHits, key);
                self.saw_get_of(key, Got::Found, || wants);
            }
            Read::Miss(kind) => {
                self.count(CommandCount::TouchMisses);
                self.saw_get(key, Got::Missed(kind));
            }
        }
        Ok(read)
    }

    /// Answers one key of a gat or gats. The caller writes END after the last key, unless one was refused.
    pub fn get_and_touch<R>(
        &mut self,
        key: Key<'_>,
        time: Exptime,
        unique: Unique,
        replies: &mut R,
    ) -> Answered
    where
        R: Replies<Pin = S::Pin>,
    {
        let shown = match unique {
            Unique::Omitted => {
                self.show_and_touch(key, time, unique, &mut ValueSink::new(key.bytes, Omitted, replies))
            }
            Unique::Shown => {
                let mut sink = ValueSink::new(key.bytes, Shown(self.uniques), replies);
                self.show_and_touch(key, time, unique, &mut sink)
            }
        };
        match shown {
            Ok(_) => Answered::Wholly,
            Err(_) => refuse(replies),
        }
    }
}

struct FixedChange(Change);

impl<T> ShownUpdate<T> for FixedChange {
    const SIGHT: Sight = Sight::Plain;

    fn change(&mut self, _sink: &mut T, _item: &Meta) -> Change {
        self.0
    }

    fn create(&mut self, _sink: &mut T) -> Option<Creation> {
        None
    }
}
