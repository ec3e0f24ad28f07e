//! ms, md and ma.

use crate::arithmetic::{Counted, NOT_A_NUMBER, Step};
use crate::change::NOT_HELD_OFF;
use crate::counters::CommandCount;
use crate::deletion::Deleted;
use crate::executor::Executor;
use crate::meta_reply;
use crate::observe::DeletedBy;
use crate::request::{Older, Request, Stored};
use crate::sight::{Sight, Vacancy};
use crate::store::{Data, Incoming, OUT_OF_MEMORY_MIDWAY, refusal_line};
use crate::uniques::Uniques;
use guira_contract::{
    Amendment, Decision, Digits, Expiry, ItemState, ItemView, Key, Meta, NewItem, Provision, Session,
    StoreError, Value,
};
use guira_protocol::{Direction, MetaGet, MetaSet, Replies, ReplyBuffer, Verb};

impl<S: Session> Executor<S> {
    fn request(&mut self, command: &MetaSet<'_>, unique: Option<u64>) -> Request {
        let flags = &command.flags;
        let verb = match (command.mode.verb, flags.cas) {
            (Verb::Set | Verb::Replace, Some(cas)) => Verb::Cas(cas),
            (verb, _) => verb,
        };
        Request {
            verb,
            join_cas: self.uniques.given(flags.cas),
            older: if flags.has(b'I') {
                self.fresh_unique().map_or(Older::Exists, Older::Stale)
            } else {
                Older::Exists
            },
            flags: flags.client_flags,
            expiry: flags.exptime.map_or(Expiry::Never, |time| self.expiry(time)),
            cas: unique,
            state: meta_reply::key_state(&command.key),
            vivify: flags.vivify.map(|time| self.expiry(time)),
        }
    }

    /// The cas unique of the stored item: the given one, or a new one if the reply contains it.
    fn unique_for(&mut self, command: &MetaSet<'_>) -> Option<u64> {
        let has_unique_flag = command.flags.has(b'c');
        let given = self.uniques.given(command.flags.cas_new);
        given.or_else(|| if has_unique_flag { self.fresh_unique() } else { None })
    }

    /// Decides how to receive the announced data block of an ms, as [`Executor::receive`] does.
    pub fn meta_receive<R>(
        &mut self,
        key: &[u8],
        command: &MetaSet<'_>,
        whole_max: usize,
        replies: &mut R,
    ) -> Incoming<S::Pending>
    where
        R: Replies<Pin = S::Pin>,
    {
        // The pending value has space for a cas unique if the item will have one; the value is chosen later.
        let has_unique_flag = command.flags.has(b'c') && self.uniques == Uniques::Kept;
        let wants_unique = has_unique_flag || self.uniques.given(command.flags.cas_new).is_some();
        let request = self.request(command, wants_unique.then_some(0));
        self.incoming(key, &request, command.length as usize, whole_max).unwrap_or_else(|refusal| {
            self.saw_refusal(key, request.verb, refusal);
            if request.is_join() && refusal == StoreError::NoMemory {
                replies.buffer().line(refusal_line(refusal));
            } else {
                self.meta_refuse(key, refusal_line(refusal), replies);
            }
            Incoming::Refused
        })
    }

    /// Answers an ms if memory runs out while its data block arrives.
    pub fn meta_give_up<R>(&mut self, key: &[u8], command: &MetaSet<'_>, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        if self.request(command, None).is_join() {
            return replies.buffer().line(OUT_OF_MEMORY_MIDWAY);
        }
        self.meta_refuse(key, OUT_OF_MEMORY_MIDWAY, replies);
    }

    fn meta_refuse<R>(&mut self, key: &[u8], line: &str, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let key = self.key(key);
        self.remove_refused(key);
        replies.buffer().line(line);
    }

    pub fn meta_set<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        command: &MetaSet<'_>,
        data: Data<'_, S::Pending>,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        let unique = self.unique_for(command);
        let request = self.request(command, unique);
        let length = command.length as usize;
        let (word, size, cas) = match self.do_store(key, guess, &request, data) {
            Ok(Stored::Yes(size)) if command.flags.quiet() => {
                let _ = size;
                return;
            }
            Ok(Stored::Yes(size)) => ("HD", size, unique.unwrap_or(0)),
            Ok(Stored::Unmet) => ("NS", length, 0),
            Ok(Stored::Exists) => ("EX", length, 0),
            Ok(Stored::NotFound) => ("NF", length, 0),
            Ok(Stored::Stale(_)) => ("NS", length, 0),
            Err(StoreError::TooLarge) if request.is_join() => ("NS", length, 0),
            Err(refusal) => {
                // An item that could not be extended stays as it is; as in memcached, any other mode removes it.
                if !request.is_join() {
                    self.remove_refused(key);
                }
                return replies.buffer().line(refusal_line(refusal));
            }
        };
        let buffer = replies.buffer();
        buffer.put(word.as_bytes());
        for (letter, token) in command.flags.in_order() {
            match letter {
                b'O' => meta_reply::opaque(buffer, token),
                b'k' => meta_reply::key(buffer, &command.key, meta_reply::key_state(&command.key)),
                b'c' => meta_reply::number(buffer, b'c', cas),
                b's' => meta_reply::number(buffer, b's', size as u64),
                _ => {}
            }
        }
        buffer.put(b"\r\n");
    }

    pub fn meta_delete<R>(&mut self, key: Key<'_>, command: &MetaGet<'_>, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let (flags, uniques) = (&command.flags, self.uniques);
        let deletion = self.deletion(flags.hold_off);
        let expiry = flags.exptime.map(|time| self.expiry(time));
        let item = self.before_delete(key);
        let class = self.class_before_delete(key);
        let mut word = "NF";
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| {
            let (decision, came_of_it) = deletion.decide(item, flags.cas, uniques);
            word = came_of_it.word();
            let Some(item) = item.filter(|item| word == "HD" && Sight::Plain.sees(item.state())) else {
                return decision;
            };
            let (unique, fresh) = (item.cas(), deletion.fresh);
            let stale = if flags.has(b'I') { ItemState::STALE } else { ItemState::NONE };
            // A stale item is a new version: cas uniques returned before no longer match.
            let cas = if flags.has(b'I') { unique.map(|_| fresh) } else { unique };
            let cas = uniques.given(flags.cas_new).or(cas);
            if flags.has(b'x') {
                return Decision::Put(NewItem {
                    flags: flags.client_flags,
                    expiry: expiry.unwrap_or(Expiry::Never),
                    cas,
                    state: meta_reply::key_state(&command.key).with(stale),
                    value: Value::Bytes(b""),
                });
            }
            if flags.has(b'I') {
                let clear = ItemState::TOKEN_SENT;
                return Decision::Amend(Amendment { expiry, cas, set: stale, clear, ..Amendment::default() });
            }
            decision
        };
        let result = self.update(Sight::All, key, Default::default(), Provision::None, decide);
        let is_refused = result.is_err();
        if is_refused {
            // An invalidation never fails for memory: what cannot be marked as stale, or emptied, is removed.
            word = Deleted::word(self.delete_at_least(key, flags.cas, &deletion));
            if deletion.held_until.is_some() {
                return replies.buffer().line(NOT_HELD_OFF);
            }
        }
        self.count(if word == "HD" { CommandCount::DeleteHits } else { CommandCount::DeleteMisses });
        self.sample_delete(class.filter(|_| word == "HD"));
        if word == "HD" && is_refused && item.is_some() {
            self.saw_delete(key, DeletedBy::Meta, item);
        } else if word == "HD" {
            self.saw_meta_delete(key, command, item, expiry);
        }
        if !(word == "HD" && flags.quiet()) {
            meta_reply::status(replies.buffer(), word, &command.key, flags);
        }
    }

    /// Reports that an md has removed the item or its value, or marked it stale.
    #[inline(always)]
    fn saw_meta_delete(
        &mut self,
        key: Key<'_>,
        command: &MetaGet<'_>,
        item: Option<Meta>,
        expiry: Option<Expiry>,
    ) {
        if item.is_none() {
            return;
        }
        let emptied = command.flags.has(b'x');
        if emptied {
            self.saw_other_store(key, Verb::Set, item, expiry.unwrap_or(Expiry::Never));
        }
        if !command.flags.has(b'I') {
            let item = if emptied { self.meta_of(key) } else { item };
            self.saw_delete(key, DeletedBy::Meta, item);
        }
    }

    pub fn meta_arithmetic<R>(
        &mut self,
        key: Key<'_>,
        command: &MetaGet<'_>,
        direction: Direction,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        let flags = &command.flags;
        let expiry = flags.exptime.map(|time| self.expiry(time));
        let vivified = flags.vivify.map(|time| self.expiry(time));
        // Of a number that this command creates, the later of the two holds.
        let begins = flags.in_order().fold(vivified, |last, (letter, _)| match letter {
            b'T' => expiry,
            b'N' => vivified,
            _ => last,
        });
        let has_unique_flag = flags.has(b'c');
        let given = self.uniques.given(flags.cas_new);
        let unique = given.or_else(|| if has_unique_flag { self.fresh_unique() } else { None });
        let step = Step {
            direction,
            delta: flags.delta,
            cas: flags.cas,
            cas_new: unique,
            expiry,
            initial: vivified.map(|expires| (flags.initial, begins.unwrap_or(expires))),
        };
        let outcome = self.count_step(key, &step);
        let buffer = replies.buffer();
        let (number, expires, created) = match outcome {
            Ok(Counted::Now(..) | Counted::Created) if flags.quiet() => return,
            Ok(Counted::Now(number, before)) => (number, before.expiry, false),
            Ok(Counted::Created) => (flags.initial, Expiry::Never, true),
            Ok(Counted::NotFound) => return meta_reply::status(buffer, "NF", &command.key, flags),
            Ok(Counted::Exists) => return meta_reply::status(buffer, "EX", &command.key, flags),
            Ok(Counted::NotANumber) => return buffer.line(NOT_A_NUMBER),
            Err(_) => return buffer.line("SERVER_ERROR out of memory"),
        };
        let digits = Digits::of(number);
        let mut time = expires;
        self.arithmetic_head(buffer, command, &digits, unique, |letter| {
            match letter {
                b'T' => time = expiry.unwrap_or(time),
                b'N' if created => time = vivified.unwrap_or(time),
                _ => {}
            }
            time
        });
        if flags.has(b'v') {
            buffer.put(digits.as_bytes());
            buffer.put(b"\r\n");
        }
    }

    /// Writes the reply line of an ma. `time` is called with every flag, in order, and returns the expiry after it.
    fn arithmetic_head(
        &self,
        buffer: &mut ReplyBuffer,
        command: &MetaGet<'_>,
        digits: &Digits,
        unique: Option<u64>,
        mut time: impl FnMut(u8) -> Expiry,
    ) {
        if command.flags.has(b'v') {
            buffer.put(b"VA ");
            buffer.number(digits.as_bytes().len() as u64);
        } else {
            buffer.put(b"HD");
        }
        for (letter, token) in command.flags.in_order() {
            let expiry = time(letter);
            match letter {
                b'c' => meta_reply::number(buffer, b'c', unique.unwrap_or(0)),
                b't' => meta_reply::time_left(buffer, expiry, self.now),
                b'O' => meta_reply::opaque(buffer, token),
                b'k' => meta_reply::key(buffer, &command.key, meta_reply::key_state(&command.key)),
                _ => {}
            }
        }
        buffer.put(b"\r\n");
    }
}
