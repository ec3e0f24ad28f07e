//! lease-get and lease-set (Scaling Memcache at Facebook, section 3.2.1).
//!
//! A lease-get that finds nothing gets a token, the right to fill the key, and leaves a hidden item that remembers it. Others wait, or make do with a
//! stale value, until the key is filled, or the interval is over and the next one gets a new token. A delete makes the token void.
//!
//! ```text
//! state of the item        plain commands   lease-get
//! -                        an item          VALUE
//! stale                    an item          LVALUE with the value, and a token unless one is in force
//! hidden, token sent       nothing          LVALUE, and a token unless this one is in force
//! hidden, stale            nothing          as for a stale one
//! hidden (a tombstone)     nothing          LVALUE, and a token that nothing can be stored with
//! ```
//!
//! The token is the item's cas unique, in a form that says when it was given: the item needs no room for it, and it survives a restart.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::observe::Got;
use crate::retrieve::{Answered, put_value, put_value_line};
use crate::showing::{Change, Creation, ShownUpdate};
use crate::sight::Sight;
use crate::token::{Grant, Leases, Token, in_force};
use crate::uniques::Uniques;
use guira_contract::{
    Amendment, Expiry, ItemState, ItemView, Key, Meta, MissKind, NewItem, Read, Recency, Session, Sink,
    Value, ValuePin, Want,
};
use guira_protocol::{Replies, Unique};
use guira_sync::clock::{Millis, Seconds};

/// What is answered instead of a token while another client's is in force.
const HELD: u64 = 1;

/// What a hidden item in wait of its value is.
const STUB: ItemState = ItemState::HIDDEN.with(ItemState::TOKEN_SENT);

/// The reply to commands of leases if items have no cas uniques.
const NO_UNIQUES: &str = "SERVER_ERROR leases need cas uniques, which are disabled";

/// What a lease-get sees in an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Value,
    /// Somebody else is to fill it.
    Held,
    /// The client may be the one to fill it.
    Open,
}

fn seen(item: &Meta, leases: Leases, now: Millis) -> Seen {
    let state = item.state;
    // What mg has created with N is empty, and not hidden.
    let created = state.has(ItemState::TOKEN_SENT) && item.value_len == 0 && item.flags == 0;
    if !state.has(ItemState::HIDDEN) && !state.has(ItemState::STALE) && !created {
        Seen::Value
    } else if in_force(state, item.cas, leases, now) {
        Seen::Held
    } else {
        Seen::Open
    }
}

/// Writes an item as VALUE or LVALUE.
struct LeaseSink<'a, 'k, R> {
    replies: &'a mut R,
    key: &'k [u8],
    mark: usize,
    leases: Leases,
    now: Millis,
    /// The token that this client has got.
    given: Option<Token>,
    seen: Seen,
}

impl<R: Replies> LeaseSink<'_, '_, R> {
    /// Writes the line before the value; whether there is one.
    fn head(&mut self, item: &Meta) -> bool {
        self.seen = seen(item, self.leases, self.now);
        let given = self.given.map(|token| token.0);
        let token = match self.seen {
            Seen::Value => None,
            Seen::Held => given.filter(|given| item.cas == Some(*given)).or(Some(HELD)),
            Seen::Open if given.is_none() => return false,
            Seen::Open => given,
        };
        put_value_line(self.replies.buffer(), self.key, token, (item.flags, item.value_len));
        true
    }
}

impl<R: Replies<Pin: ValuePin>> Sink for LeaseSink<'_, '_, R> {
    type Pin = R::Pin;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        let meta = item.meta();
        if self.head(&meta) {
            put_value(self.replies.buffer(), item, meta.value_len);
        }
    }

    fn undo(&mut self) {
        self.replies.take_back(self.mark);
    }

    fn recency(&self) -> Recency {
        if self.seen == Seen::Open { Recency::Leave } else { Recency::Bump }
    }

    fn pinned(&mut self, meta: &Meta, pin: R::Pin) {
        if self.head(meta) {
            self.replies.pin(pin);
            self.replies.buffer().put(b"\r\n");
        }
    }
}

impl<R> ShownUpdate<LeaseSink<'_, '_, R>> for Grant {
    const SIGHT: Sight = Sight::All;

    fn change(&mut self, sink: &mut LeaseSink<'_, '_, R>, item: &Meta) -> Change {
        // An engine may decide again after the item has got the token.
        let has_it = item.cas == Some(self.token.0);
        let is_open = has_it || seen(item, sink.leases, sink.now) == Seen::Open;
        sink.given = is_open.then_some(self.token);
        // Nothing can be stored with the token of a tombstone: clients use the database meanwhile.
        let gets_it = is_open && !item.state.is_tombstone();
        Change::Amend(if gets_it { self.amendment(item) } else { Amendment::default() })
    }

    fn create(&mut self, sink: &mut LeaseSink<'_, '_, R>) -> Option<Creation> {
        sink.given = Some(self.token);
        Some(Creation::Store(NewItem {
            flags: 0,
            expiry: Expiry::At(self.until),
            cas: Some(self.token.0),
            state: STUB,
            value: Value::Bytes(b""),
        }))
    }
}

impl<S: Session> Executor<S> {
    pub(crate) fn grant(&mut self) -> Grant {
        let drawn = self.session.next_cas();
        let seconds = self.leases.interval_ms.div_ceil(1000).saturating_add(1);
        let until = Seconds(self.now.0.saturating_add(seconds));
        Grant { token: Token::new(self.now_fine, drawn), until }
    }

    /// Whether there are leases.
    ///
    /// # Errors
    /// The reply if there are none.
    pub fn gives_leases(&self) -> Result<(), &'static str> {
        if self.uniques == Uniques::Kept { Ok(()) } else { Err(NO_UNIQUES) }
    }

    /// Answers one key of a lease-get. The caller writes END after the last key, unless one was refused.
    pub(crate) fn lease_get<R>(&mut self, key: Key<'_>, guess: S::Guess, replies: &mut R) -> Answered
    where
        R: Replies<Pin = S::Pin>,
    {
        if let Err(refusal) = self.gives_leases() {
            replies.buffer().line(refusal);
            return Answered::Refused;
        }
        let (leases, now, mark) = (self.leases, self.now_fine, replies.buffer().len());
        let mut sink =
            LeaseSink { replies, key: key.bytes, mark, leases, now, given: None, seen: Seen::Value };
        let read = self.session.read(key, guess, self.now, &mut sink);
        if read == Read::Hit && sink.seen != Seen::Open {
            let came_of_it = sink.seen;
            self.count_lease(key, came_of_it, None);
            return Answered::Wholly;
        }
        let mut grant = self.grant();
        let missed = if let Read::Miss(kind) = read { Some(kind) } else { None };
        let shown = self.change_and_show(key, Unique::Omitted, &mut sink, &mut grant);
        if shown.is_err() {
            // There is no memory to remember a token. The client gets one that nothing can be stored with.
            self.count(CommandCount::StoreNoMemory);
            sink.given = Some(grant.token);
            if self.session.read(key, S::Guess::default(), self.now, &mut sink) != Read::Hit {
                sink.seen = Seen::Open;
                put_value_line(sink.replies.buffer(), key.bytes, Some(grant.token.0), (0, 0));
                sink.replies.buffer().put(b"\r\n");
            }
        }
        let given = sink.given.is_some();
        let came_of_it = if given && sink.seen != Seen::Value { Seen::Open } else { sink.seen };
        if given && shown.is_ok() {
            self.count(CommandCount::LeaseTokens);
        }
        self.count_lease(key, came_of_it, missed);
        Answered::Wholly
    }

    fn count_lease(&mut self, key: Key<'_>, came_of_it: Seen, missed: Option<MissKind>) {
        self.count(CommandCount::LeaseGets);
        if came_of_it == Seen::Value {
            self.count(CommandCount::CmdGet);
            self.count(CommandCount::GetHits);
            self.sample(CommandCount::GetHits, key);
            return self.saw_get(key, Got::Found);
        }
        if came_of_it == Seen::Held {
            self.count(CommandCount::LeaseHotMisses);
        }
        let kind = missed.unwrap_or(MissKind::Absent);
        self.count_miss(kind);
        self.saw_get(key, Got::Missed(kind));
    }
}
