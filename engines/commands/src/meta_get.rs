//! mg
//!
//! A plain mg is a read. One that changes the item (T), may create it (N), or may win the right to recache it (R, or
//! a stale item) is an update that also shows the item.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::meta_reply;
use crate::observe::Got;
use crate::retrieve::{NO_MEMORY_FOR_READ, put_value};
use crate::showing::{Change, Creation, ShownUpdate};
use crate::sight::Sight;
use crate::token::{Contest, Grant};
use crate::uniques::Uniques;
use guira_contract::{
    Amendment, Expiry, ItemState, ItemView, Key, Meta, MissKind, NewItem, Read, Recency, Session, Sink,
    StoreError, Value, ValuePin, Want,
};
use guira_protocol::{Exptime, MetaFlags, MetaGet, MetaKey, Replies, ReplyBuffer, Unique};
use guira_sync::clock::Seconds;

#[derive(Clone, Copy, Debug)]
struct Before {
    /// The item before the update.
    meta: Meta,
    created: bool,
    /// The client has won: it is to recache the item.
    won: bool,
}

/// The expiry as the flags of a command change it, in order.
struct Times {
    expiry: Expiry,
    touched: Option<Expiry>,
    vivified: Option<Expiry>,
    recache: Option<Expiry>,
}

struct MetaSink<'a, 'k, R> {
    replies: &'a mut R,
    key: &'a MetaKey<'k>,
    flags: &'a MetaFlags<'k>,
    now: Seconds,
    mark: usize,
    before: Option<Before>,
    times: &'a dyn Fn(Expiry) -> Times,
    uniques: Uniques,
    /// `None` if there is no memory to record a winner.
    contest: Option<Contest>,
    /// The update that the item needs first.
    needs: Option<Need>,
    /// There is a tombstone, which is a miss.
    is_held_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The reply contains the cas unique, and the item has none.
    Unique,
    /// The item is stale, and no client has won.
    Win,
}

impl<R: Replies> MetaSink<'_, '_, R> {
    fn need(&self, meta: &Meta) -> Option<Need> {
        if self.flags.has(b'c') && self.uniques.shown(meta.cas).is_none() {
            return Some(Need::Unique);
        }
        let waits = self.contest.is_some_and(|contest| contest.is_open(meta));
        (waits && self.before.is_none()).then_some(Need::Win)
    }

    /// Whether the value is omitted because the client has this version: flag C matches the item's cas unique.
    fn suppressed(&self, meta: &Meta) -> bool {
        self.flags.cas.is_some() && self.uniques.shown(meta.cas) == self.flags.cas
    }

    /// Writes the reply line of the item, without its end. Returns whether the value follows.
    fn head(&mut self, now_meta: &Meta) -> bool {
        let before = self.before.map_or(*now_meta, |before| before.meta);
        let with_value = self.flags.has(b'v') && !self.suppressed(now_meta);
        let mut times = (self.times)(before.expiry);
        let buffer = self.replies.buffer();
        if with_value {
            buffer.put(b"VA ");
            buffer.number(now_meta.value_len as u64);
        } else {
            buffer.put(b"HD");
        }
        for (letter, token) in self.flags.in_order() {
            match letter {
                b'T' => times.expiry = times.touched.unwrap_or(times.expiry),
                b'N' if self.before.is_some_and(|before| before.created) => {
                    times.expiry = times.vivified.unwrap_or(times.expiry);
                }
                b's' => meta_reply::number(buffer, b's', now_meta.value_len as u64),
                b't' => meta_reply::time_left(buffer, times.expiry, self.now),
                b'c' => {
                    meta_reply::number(buffer, b'c', self.uniques.shown(now_meta.cas).unwrap_or(0));
                }
                b'f' => meta_reply::number(buffer, b'f', u64::from(now_meta.flags)),
                b'l' => meta_reply::number(
                    buffer,
                    b'l',
                    u64::from(self.now.0.saturating_sub(before.last_access.0)),
                ),
                b'h' => meta_reply::number(buffer, b'h', u64::from(before.state.has(ItemState::FETCHED))),
                b'O' => meta_reply::opaque(buffer, token),
                b'k' => meta_reply::key(buffer, self.key, now_meta.state),
                _ => {}
            }
        }
        wins(buffer, &before, self.before.is_some_and(|before| before.won));
        buffer.put(b"\r\n");
        with_value
    }
}

/// Writes whether another client has won (Z), the item is stale (X), and this client has won (W).
fn wins(buffer: &mut ReplyBuffer, before: &Meta, won: bool) {
    // Who wins a hidden item whose interval is over is not to wait for the client that had it.
    if before.state.has(ItemState::TOKEN_SENT) && !won {
        buffer.put(b" Z");
    }
    if before.state.has(ItemState::STALE) {
        buffer.put(b" X");
    }
    if won {
        buffer.put(b" W");
    }
}

impl<R: Replies<Pin: ValuePin>> Sink for MetaSink<'_, '_, R> {
    type Pin = R::Pin;

    fn wants(&self) -> Want {
        if self.flags.has(b'v') { Want::Value } else { Want::Meta }
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        let meta = item.meta();
        self.is_held_off = meta.state.is_tombstone();
        if self.is_held_off {
            return;
        }
        self.needs = self.need(&meta);
        if self.needs.is_some() {
            return;
        }
        if self.head(&meta) {
            put_value(self.replies.buffer(), item, meta.value_len);
        }
    }

    fn undo(&mut self) {
        self.is_held_off = false;
        self.replies.take_back(self.mark);
    }

    fn recency(&self) -> Recency {
        // The update has recorded the access, or will.
        let leave = self.flags.has(b'u') || self.before.is_some() || self.needs.is_some();
        if leave { Recency::Leave } else { Recency::Bump }
    }

    fn pinned(&mut self, meta: &Meta, pin: R::Pin) {
        self.is_held_off = meta.state.is_tombstone();
        if self.is_held_off {
            return;
        }
        self.needs = self.need(meta);
        if self.needs.is_none() && self.head(meta) {
            self.replies.pin(pin);
            self.replies.buffer().put(b"\r\n");
        }
    }
}

/// The update that an mg asks for.
struct MetaGetUpdate<'a, 'k> {
    key: &'a MetaKey<'k>,
    flags: &'a MetaFlags<'k>,
    now: Seconds,
    times: &'a dyn Fn(Expiry) -> Times,
    /// The cas unique of a created item.
    given: Option<u64>,
    /// What a client gets that wins a hidden item.
    grant: Option<Grant>,
}

impl<R> ShownUpdate<MetaSink<'_, '_, R>> for MetaGetUpdate<'_, '_> {
    const SIGHT: Sight = Sight::Hidden;

    fn change(&mut self, sink: &mut MetaSink<'_, '_, R>, item: &Meta) -> Change {
        let (expiry, won) = outcome(item, self.flags, sink.contest, (self.times)(item.expiry));
        sink.before = Some(Before { meta: *item, created: false, won });
        if expiry.is_some_and(|expiry| expiry.passed(self.now)) {
            return Change::Remove;
        }
        let recency = if self.flags.has(b'u') { Recency::Leave } else { Recency::Bump };
        let set = if won { ItemState::TOKEN_SENT } else { ItemState::NONE };
        // Other items keep their cas unique and their time, as in memcached.
        let grant = self.grant.filter(|_| won && item.state.has(ItemState::HIDDEN));
        let base = grant.map_or(Amendment::default(), |grant| grant.amendment(item));
        Change::Amend(Amendment { expiry: expiry.or(base.expiry), set, recency, ..base })
    }

    fn create(&mut self, sink: &mut MetaSink<'_, '_, R>) -> Option<Creation> {
        sink.before = None;
        let times = (self.times)(Expiry::Never);
        let vivified = times.vivified?;
        let expiry = final_expiry(self.flags, &times).unwrap_or(vivified);
        let state = meta_reply::key_state(self.key);
        sink.before = Some(Before { meta: vivified_meta(state, self.now), created: true, won: true });
        let bumped = if self.flags.has(b'u') { ItemState::NONE } else { ItemState::FETCHED };
        let state = state.with(ItemState::TOKEN_SENT).with(bumped);
        let new = NewItem { flags: 0, expiry, cas: self.given, state, value: Value::Bytes(b"") };
        Some(if expiry.passed(self.now) { Creation::Pass(new) } else { Creation::Store(new) })
    }
}

impl<S: Session> Executor<S> {
    pub fn meta_get<R: Replies<Pin = S::Pin>>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        command: &MetaGet<'_>,
        replies: &mut R,
    ) {
        let flags = &command.flags;
        let Ok((read, created)) = self.read_for_meta(key, guess, command, replies) else {
            return replies.buffer().line(NO_MEMORY_FOR_READ);
        };
        let touches = flags.exptime.is_some();
        if let Read::Miss(kind) = read {
            if !touches {
                self.count_miss(kind);
            }
            self.saw_get(key, Got::Missed(kind));
        }
        let hit = read == Read::Hit;
        self.count_meta_get(key, hit, touches);
        if hit {
            let wants = || if flags.has(b'v') { Want::Value } else { Want::Meta };
            self.saw_get_of(key, if created { Got::Created } else { Got::Found }, wants);
        }
        if !hit && !flags.quiet() {
            meta_reply::status(replies.buffer(), "EN", &command.key, flags);
        }
    }

    /// Executes the update of an mg and writes the item, if there is one. Returns whether it was created.
    fn read_for_meta<R: Replies<Pin = S::Pin>>(
        &mut self,
        key: Key<'_>,
        mut guess: S::Guess,
        command: &MetaGet<'_>,
        replies: &mut R,
    ) -> Result<(Read, bool), StoreError> {
        let flags = &command.flags;
        let time = |time: Option<Exptime>| time.map(|time| self.expiry(time));
        let (touched, vivified, recache) = (time(flags.exptime), time(flags.vivify), time(flags.recache));
        let times = |expiry| Times { expiry, touched, vivified, recache };
        let given = self.uniques.given(flags.cas_new);
        let mut asked =
            MetaGetUpdate { key: &command.key, flags, now: self.now, times: &times, given, grant: None };
        let changes = touched.is_some() || vivified.is_some() || recache.is_some();
        let mut sink = MetaSink {
            mark: replies.buffer().len(),
            replies,
            key: &command.key,
            flags,
            now: self.now,
            before: None,
            times: &times,
            uniques: self.uniques,
            contest: Some(Contest { leases: self.leases, now: self.now_fine }),
            needs: None,
            is_held_off: false,
        };
        // The client that recaches an item proves its right by the cas unique, so the item must have one.
        let unique = if flags.has(b'c') { Unique::Shown } else { Unique::Omitted };
        loop {
            let needs = if changes {
                None
            } else {
                let read = self.session.read(key, guess, self.now, &mut sink);
                if read == Read::Hit && sink.is_held_off {
                    return Ok((Read::Miss(MissKind::Absent), false));
                }
                let Some(needs) = sink.needs.filter(|_| read == Read::Hit) else {
                    return Ok((read, false));
                };
                Some(needs)
            };
            asked.grant = (self.uniques == Uniques::Kept).then(|| self.grant());
            match self.change_and_show(key, unique, &mut sink, &mut asked) {
                Ok(read) => return Ok((read, sink.before.is_some_and(|before| before.created))),
                Err(_) if needs == Some(Need::Win) => {
                    // The update may have invalidated the guess.
                    guess = S::Guess::default();
                    (sink.contest, sink.before) = (None, None);
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    fn count_meta_get(&mut self, key: Key<'_>, hit: bool, touches: bool) {
        match (hit, touches) {
            (true, false) => {
                self.count(CommandCount::CmdGet);
                self.count(CommandCount::GetHits);
                self.sample(CommandCount::GetHits, key);
            }
            (_, true) => {
                self.count(CommandCount::CmdTouch);
                self.count(if hit { CommandCount::TouchHits } else { CommandCount::TouchMisses });
            }
            (false, false) => {}
        }
    }
}

/// Applies the flags T and R to an item's expiry, in order. Returns also whether the client wins.
fn outcome(
    meta: &Meta,
    flags: &MetaFlags<'_>,
    contest: Option<Contest>,
    times: Times,
) -> (Option<Expiry>, bool) {
    let sent = meta.state.has(ItemState::TOKEN_SENT);
    let mut won = contest.is_some_and(|contest| contest.is_open(meta));
    let mut expiry = times.expiry;
    for (letter, _) in flags.in_order() {
        match letter {
            b'T' => expiry = times.touched.unwrap_or(expiry),
            b'R' => {
                if let (Expiry::At(at), Some(Expiry::At(limit))) = (expiry, times.recache) {
                    won |= !sent && at < limit;
                }
            }
            _ => {}
        }
    }
    (times.touched, won)
}

/// The expiry of a created item: the flags T and N, in order.
fn final_expiry(flags: &MetaFlags<'_>, times: &Times) -> Option<Expiry> {
    let given = flags.in_order().filter_map(|(letter, _)| match letter {
        b'T' => times.touched,
        b'N' => times.vivified,
        _ => None,
    });
    given.last()
}

/// A created item, as it was before any client could see it.
fn vivified_meta(state: ItemState, now: Seconds) -> Meta {
    Meta {
        value_len: 0,
        flags: 0,
        expiry: Expiry::Never,
        cas: None,
        last_access: now,
        state,
        size: 0,
        class: 0,
    }
}
