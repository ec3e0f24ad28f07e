//! Requests that are executed elsewhere: posting them, and executing those of others.

use super::{Parcel, Trim, Use};
use crate::dialogue::{Access, BATCH, Dialogue, Entry, Interpreter, OUTBOX_FULL};
use crate::listen::Speaks;
use crate::outbox::Outbox;
use arrayvec::ArrayVec;
use guira_commands::Executor;
use guira_contract::{KeyHash, Session};
use guira_protocol::{AdminVerb, Command, Exptime, Get, Meta, Unique};

/// So many requests of a connection may be under way: what follows waits for their replies.
const SLOTS_MAX: usize = 2 * BATCH;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It is executed here.
    Here,
    /// It was posted.
    Posted,
    /// It has to wait until replies have come.
    Waits,
}

/// What a command does with its key.
pub(crate) fn use_of(command: &Command<'_>) -> Use {
    match command {
        Command::Get(Get { touch: None, .. }) | Command::MetaDebug(_) => Use::Read,
        Command::Meta(Meta::Get(get))
            if !(get.flags.has(b'T') || get.flags.has(b'N') || get.flags.has(b'R')) =>
        {
            Use::Read
        }
        _ => Use::Write,
    }
}

/// Whether a command may be answered before what was asked earlier is done.
fn is_harmless(command: &Command<'_>) -> bool {
    // The last two are refused if there is something before them.
    matches!(
        command,
        Command::MetaNoop
            | Command::Version
            | Command::Admin(AdminVerb::Watch, _)
            | Command::Admin(AdminVerb::LruCrawler, _)
    )
}

impl<S: Session> Interpreter<S> {
    /// Posts a request if it is to be executed elsewhere.
    #[inline(always)]
    pub(crate) fn route(
        &mut self,
        dialogue: &Dialogue<S>,
        entry: &Entry<'_, S::Guess>,
        request: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> Route {
        if !self.post.is_in_use() {
            return Route::Here;
        }
        if entry.hash == KeyHash::default() {
            let waits = outbox.open_slots() > 0 && !is_harmless(&entry.command);
            return if waits { Route::Waits } else { Route::Here };
        }
        self.route_key(dialogue, entry.hash, use_of(&entry.command), (&[request], Trim::Nothing), outbox)
    }

    /// Posts a request about a key if it is to be executed elsewhere.
    fn route_key(
        &mut self,
        dialogue: &Dialogue<S>,
        hash: KeyHash,
        what: Use,
        (request, trim): (&[&[u8]], Trim),
        outbox: &mut Outbox<S::Pin>,
    ) -> Route {
        let open = outbox.open_slots();
        let (Some(home), Some(sender)) = (self.post.home_elsewhere(hash, what, open > 0), dialogue.sender)
        else {
            return Route::Here;
        };
        // Where room is short nothing is asked of others: what they send comes whether there is room for it or not.
        if self.full < OUTBOX_FULL {
            return if open > 0 { Route::Waits } else { Route::Here };
        }
        if open >= SLOTS_MAX || self.post.is_too_much(home) {
            return Route::Waits;
        }
        if !self.post.has_parcel(home) {
            return if open > 0 { Route::Waits } else { Route::Here };
        }
        let slot = outbox.defer();
        self.post.put(home, sender, request, (trim, what), slot);
        Route::Posted
    }

    /// The same for one key of a get of several.
    pub(crate) fn route_one_of_keys(
        &mut self,
        dialogue: &Dialogue<S>,
        key: &[u8],
        hash: KeyHash,
        (unique, touch): (Unique, Option<Exptime>),
        outbox: &mut Outbox<S::Pin>,
    ) -> Route {
        if !self.post.is_in_use() {
            return Route::Here;
        }
        let what = if touch.is_none() { Use::Read } else { Use::Write };
        let time = touch.map(|time| format!("{} ", time.0)).unwrap_or_default();
        let verb: &[u8] = match (touch, unique) {
            (None, Unique::Untold) => b"get ",
            (None, Unique::Told) => b"gets ",
            (Some(_), Unique::Untold) => b"gat ",
            (Some(_), Unique::Told) => b"gats ",
        };
        self.route_key(dialogue, hash, what, (&[verb, time.as_bytes(), key, b"\r\n"], Trim::End), outbox)
    }

    /// Executes the requests of another worker's connection.
    pub(crate) fn run_parcel(&mut self, parcel: &mut Parcel<S::Pin>) {
        self.tap.serve(parcel.sender.client);
        let mut dialogue = Dialogue::new(Speaks::Text, Access::Free, None);
        let Parcel { requests, parts, replies, full, done, .. } = parcel;
        let mut begin = 0;
        for parts in parts.chunks_mut(BATCH) {
            let mut batch = ArrayVec::<Option<Entry<'_, S::Guess>>, BATCH>::new();
            for part in &*parts {
                // It was understood where it came from.
                batch.push(self.parse_one(&requests[..part.request_end], begin).ok());
                begin = part.request_end;
            }
            for entry in batch.iter_mut().flatten() {
                entry.guess = self.executor.prefetch_item(entry.hash);
            }
            for _ in 0..Executor::<S>::PREFETCH_STEPS {
                batch.iter_mut().flatten().for_each(|entry| self.executor.prefetch_next(&mut entry.guess));
            }
            for (part, entry) in parts.iter_mut().zip(&batch) {
                if let Some(entry) = entry {
                    self.execute(&mut dialogue, entry, replies);
                }
                if part.trim == Trim::End {
                    replies.trim_end(b"END\r\n");
                }
                part.reply_end = replies.end();
                *done += 1;
                if replies.weight() >= *full {
                    return;
                }
            }
        }
    }
}
