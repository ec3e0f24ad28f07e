//! A connection's conversation, without the connection: bytes of requests in, replies into an outbox.
//!
//! Requests are executed in batches. A batch is parsed first, and for every key its buckets are asked for; then the items
//! that the buckets lead to; then it is executed in order, by when most of what it touches has arrived in the caches. A batch ends
//! where input ends, after [`BATCH`] requests, or at a request that is answered in pieces of its own: a get
//! of many keys, a long value, a fault. It is cut short when its replies fill the outbox.

use crate::admin::{Admin, Answer};
use crate::binary::PacketValue;
use crate::errand::Errand;
use crate::listen::Speaks;
use crate::outbox::Outbox;
use crate::post::{Post, Route, Sender, Use, use_of};
use crate::shared::{Shared, WorkerCounters};
use crate::slice::Slice;
use crate::watch::{CloseReason, Tap};
use arrayvec::ArrayVec;
use guira_commands::{Answered, Data, Executor, Incoming, Replies};
use guira_contract::{Key, KeyHash, PendingValue, Session};
use guira_protocol::binary::REQUEST_MAGIC;
use guira_protocol::{
    AdminVerb, Command, Cut, Exptime, Fault, Get, Keys, Line, Meta, MetaKey, MetaSet, Noreply, Store, Unique,
    cut, noreply, parse,
};
use std::sync::Arc;

/// Requests in a batch, and keys of a get that are looked up together.
pub(crate) const BATCH: usize = 64;

/// An outbox is full when it holds this many bytes: what follows waits until they were sent.
pub(crate) const OUTBOX_FULL: usize = 64 << 10;
/// The same where room is short.
pub(crate) const OUTBOX_FULL_SHORT: usize = 2 << 10;

/// What a conversation is in the middle of.
#[derive(Debug, Default)]
pub(crate) enum Phase<D> {
    /// A command comes next.
    #[default]
    Command,
    /// So many bytes of data nobody wants come next.
    Swallow(u64),
    /// The data block of this command comes next, in pieces.
    Value(Box<LongValue<D>>),
    /// The value of a packet comes next, in pieces.
    PacketValue(Box<PacketValue<D>>),
    /// More keys of a get come next, in a line whose end has arrived.
    Keys(Unique, Option<Exptime>),
    /// Nothing, until this is done.
    Errand(Box<Errand>),
    /// Nothing: it is over.
    Over,
}

/// A value that arrives in pieces.
#[derive(Debug)]
pub(crate) struct LongValue<D> {
    /// The command line, without its end.
    line: Box<[u8]>,
    pending: D,
    /// The line end after the value, as far as it has arrived.
    end: ArrayVec<u8, 2>,
}

/// The state of one conversation.
#[derive(Debug)]
pub(crate) struct Dialogue<S: Session> {
    pub(crate) phase: Phase<S::Pending>,
    protocol: Protocol,
    pub(crate) access: Access,
    /// A login has begun, and its next step is to come.
    pub(crate) asked: bool,
    /// Why it is over, if it is.
    pub(crate) ends: CloseReason,
    /// To whom replies of other workers come back; without, none are asked.
    pub(crate) sender: Option<Sender>,
    /// Parcels of its requests that are under way.
    pub(crate) out: usize,
    /// What is left of its turn.
    pub(crate) slice: Slice,
}

/// Whether a client has said who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It has, or need not.
    Free,
    /// It has to.
    Login,
}

impl<S: Session> Dialogue<S> {
    pub(crate) fn new(speaks: Speaks, access: Access, sender: Option<Sender>) -> Self {
        let protocol = match speaks {
            Speaks::Any => Protocol::Undecided,
            Speaks::Text => Protocol::Text,
            Speaks::Binary => Protocol::Binary,
        };
        Dialogue {
            phase: Phase::Command,
            protocol,
            access,
            asked: false,
            ends: CloseReason::Error,
            sender,
            out: 0,
            slice: Slice::ENDLESS,
        }
    }

    /// What is spoken, as far as it is known.
    pub(crate) fn speaks(&self) -> Speaks {
        match self.protocol {
            Protocol::Undecided => Speaks::Any,
            Protocol::Text => Speaks::Text,
            Protocol::Binary => Speaks::Binary,
        }
    }

    /// Whether it goes on only after an errand.
    pub(crate) fn leaves(&self) -> bool {
        matches!(self.phase, Phase::Errand(_))
    }

    /// Takes the errand; the next command comes after it.
    pub(crate) fn take_errand(&mut self) -> Option<Errand> {
        match std::mem::take(&mut self.phase) {
            Phase::Errand(errand) => Some(*errand),
            _ => None,
        }
    }

    /// Whether a request has arrived in part.
    pub(crate) fn is_midway(&self) -> bool {
        matches!(self.phase, Phase::Value(_) | Phase::PacketValue(_) | Phase::Swallow(_))
    }
}

/// What a client speaks: the first byte of its first command says it, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Undecided,
    /// Classic and meta.
    Text,
    Binary,
}

impl Protocol {
    fn of(input: &[u8]) -> Self {
        match input.first() {
            None => Protocol::Undecided,
            Some(&REQUEST_MAGIC) => Protocol::Binary,
            Some(_) => Protocol::Text,
        }
    }
}

/// Why a run has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It needs more input.
    NeedsInput,
    /// The outbox is full.
    OutboxFull,
    /// Others have their turn.
    SliceOver,
    /// The connection leaves for an errand after the outbox was sent.
    Leaves,
    /// The connection is to be closed after the outbox was sent.
    Over,
}

/// A request of a batch.
#[derive(Debug)]
pub(crate) struct Entry<'a, G> {
    pub(crate) command: Command<'a>,
    pub(crate) hash: KeyHash,
    pub(crate) guess: G,
    /// Its data block, with its line end.
    data: &'a [u8],
    /// Where the next request begins.
    end: usize,
}

/// Executes conversations, for one worker.
#[derive(Debug)]
pub(crate) struct Interpreter<S: Session> {
    pub(crate) executor: Executor<S>,
    pub(crate) admin: Arc<dyn Admin>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) tap: Arc<Tap>,
    pub(crate) post: Post<S::Pin>,
    /// When an outbox counts as full, in bytes: [`OUTBOX_FULL`], or less where room is short.
    pub(crate) full: usize,
    /// Bytes of long values that connections have pinned which wait for another turn to send them.
    pub(crate) unsent: usize,
}

impl<S: Session> Interpreter<S> {
    /// Whether more is held, or about to be sent, than there should be for long.
    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.room.is_short() || self.unsent > self.shared.room.for_turns()
    }

    /// Takes requests from `input` and answers them, or has others answer them. Returns how many bytes were taken, and why it has stopped.
    pub(crate) fn run(
        &mut self,
        dialogue: &mut Dialogue<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        let result = self.run_on(dialogue, input, outbox);
        if self.post.is_in_use() {
            dialogue.out += self.post.dispatch(self.full);
        }
        result
    }

    fn run_on(
        &mut self,
        dialogue: &mut Dialogue<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        let mut at = 0;
        if dialogue.protocol == Protocol::Undecided {
            dialogue.protocol = Protocol::of(input);
        }
        loop {
            if outbox.weight() >= self.full {
                return (at, Stopped::OutboxFull);
            }
            if dialogue.slice.is_cut() && at < input.len() {
                return (at, Stopped::SliceOver);
            }
            let rest = &input[at..];
            let taken = match &mut dialogue.phase {
                Phase::Command => match (dialogue.protocol, dialogue.access) {
                    (Protocol::Binary, Access::Free) => self.packets(dialogue, rest, outbox),
                    (Protocol::Binary, Access::Login) => self.packet_login(dialogue, rest, outbox),
                    (_, Access::Free) => self.commands(dialogue, rest, outbox),
                    (_, Access::Login) => self.text_login(dialogue, rest, outbox),
                },
                Phase::Swallow(left) => {
                    let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    if *left == 0 {
                        dialogue.phase = Phase::Command;
                    }
                    taken
                }
                Phase::Value(_) => self.value(dialogue, rest, outbox),
                Phase::PacketValue(_) => self.packet_value(dialogue, rest, outbox),
                Phase::Keys(unique, touch) => {
                    let (unique, touch) = (*unique, *touch);
                    self.more_keys(dialogue, rest, unique, touch, outbox)
                }
                Phase::Errand(_) => return (at, Stopped::Leaves),
                Phase::Over => return (at, Stopped::Over),
            };
            at += taken;
            if taken == 0 && !matches!(dialogue.phase, Phase::Over | Phase::Errand(_)) {
                // It may be others that it needs.
                let stopped = if outbox.open_slots() > 0 { Stopped::OutboxFull } else { Stopped::NeedsInput };
                return (at, stopped);
            }
        }
    }

    /// Parses and executes a batch. Returns how many bytes were taken: none if more have to come.
    fn commands(&mut self, dialogue: &mut Dialogue<S>, input: &[u8], outbox: &mut Outbox<S::Pin>) -> usize {
        let mut batch = ArrayVec::<Entry<'_, S::Guess>, BATCH>::new();
        let mut at = 0;
        let mut special = None;
        while !batch.is_full() {
            match self.parse_one(input, at) {
                Ok(entry) => {
                    at = entry.end;
                    batch.push(entry);
                }
                Err(found) => {
                    special = Some(found);
                    break;
                }
            }
        }
        if batch.is_empty() {
            dialogue.slice.executed(1);
            return special.map_or(0, |special| self.special(dialogue, special, outbox));
        }
        for entry in &mut batch {
            if entry.hash != KeyHash::default() && self.is_here(entry.hash, || use_of(&entry.command)) {
                entry.guess = self.executor.prefetch_item(entry.hash);
            }
        }
        for _ in 0..Executor::<S>::PREFETCH_STEPS {
            batch.iter_mut().for_each(|entry| self.executor.prefetch_next(&mut entry.guess));
        }
        dialogue.slice.executed(batch.len());
        let mut begin = 0;
        for entry in &batch {
            let request = &input[begin..entry.end];
            begin = entry.end;
            match self.route(dialogue, entry, request, outbox) {
                Route::Here => {}
                Route::Posted => continue,
                Route::Waits => return begin - request.len(),
            }
            self.execute(dialogue, entry, outbox);
            if matches!(dialogue.phase, Phase::Over | Phase::Errand(_)) || outbox.weight() >= self.full {
                return entry.end;
            }
        }
        at
    }

    /// Whether a request about a key is executed here, as far as is known before those in front of it are.
    #[inline(always)]
    fn is_here(&self, hash: KeyHash, what: impl FnOnce() -> Use) -> bool {
        !self.post.is_in_use() || self.post.home_elsewhere(hash, what(), false).is_none()
    }

    /// The hash of a key. Asks for its bucket if that is to be looked at here.
    #[inline(always)]
    fn meet(&self, key: &[u8], command: &Command<'_>) -> KeyHash {
        let hash = self.executor.hash(key);
        if self.is_here(hash, || use_of(command)) {
            self.executor.prefetch_hash(hash);
        }
        hash
    }

    /// Parses the request at `at`, if it can be executed in a batch.
    #[inline(always)]
    pub(crate) fn parse_one<'a>(
        &self,
        input: &'a [u8],
        at: usize,
    ) -> Result<Entry<'a, S::Guess>, Special<'a>> {
        let line = match cut(&input[at..]) {
            Cut::Line(line) => line,
            Cut::Unfinished => return Err(Special::Unfinished),
            Cut::TooLong => return Err(Special::TooLong),
        };
        let command = match parse(line) {
            Ok(command) => command,
            Err(fault) => return Err(Special::Fault(fault, line.length)),
        };
        let mut end = at + line.length;
        let mut data: &[u8] = &[];
        let hash = match &command {
            Command::Get(get) => match get.keys.single() {
                Some(key) => self.meet(key, &command),
                None => return Err(Special::Keys(*get, line)),
            },
            Command::Store(Store { key, length, .. }) => {
                data = block(input, end, *length).ok_or(Special::Incomplete(line))?;
                self.meet(key, &command)
            }
            Command::Meta(Meta::Set(MetaSet { key, length, .. })) => {
                data = block(input, end, *length).ok_or(Special::Incomplete(line))?;
                self.meet_meta(key, &command)
            }
            Command::Meta(Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _)) => {
                self.meet_meta(&get.key, &command)
            }
            Command::MetaDebug(key) => self.meet_meta(key, &command),
            Command::Delete(delete) => self.meet(delete.key, &command),
            Command::Arithmetic(arithmetic) => self.meet(arithmetic.key, &command),
            Command::Touch(touch) => self.meet(touch.key, &command),
            _ => KeyHash::default(),
        };
        end += data.len();
        Ok(Entry { command, hash, guess: S::Guess::default(), data, end })
    }

    fn meet_meta(&self, key: &MetaKey<'_>, command: &Command<'_>) -> KeyHash {
        self.meet(key.bytes(&mut [0; 336]), command)
    }

    /// What cannot be executed in a batch and comes first. Returns how many bytes were taken.
    fn special(
        &mut self,
        dialogue: &mut Dialogue<S>,
        special: Special<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        match special {
            Special::Unfinished => 0,
            Special::TooLong => {
                dialogue.phase = Phase::Over;
                0
            }
            Special::Fault(fault, length) => {
                match fault {
                    Fault::Answer(text) => outbox.buffer().line(text),
                    Fault::Silent => {}
                    Fault::Close => dialogue.phase = Phase::Over,
                    Fault::Swallow { answer, noreply, bytes } => {
                        if noreply == Noreply::No {
                            outbox.buffer().line(answer);
                        }
                        dialogue.phase = Phase::Swallow(bytes);
                    }
                }
                length
            }
            Special::Keys(get, line) => {
                let left = self.keys(dialogue, get.keys, get.unique, get.touch, outbox);
                left.map_or(line.length, |left| line.text.len() - left)
            }
            // It is stored by this worker, whoever its key belongs to.
            Special::Incomplete(_) if outbox.open_slots() > 0 => 0,
            Special::Incomplete(line) => self.incomplete(dialogue, line, outbox),
        }
    }

    /// A data block that has not arrived altogether.
    fn incomplete(
        &mut self,
        dialogue: &mut Dialogue<S>,
        line: Line<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let (incoming, length) = match parse(line) {
            Ok(Command::Store(store)) => (self.executor.receive(&store, outbox), store.length),
            Ok(Command::Meta(Meta::Set(set))) => {
                let mut buffer = [0; 336];
                let key = set.key.bytes(&mut buffer);
                (self.executor.meta_receive(key, &set, outbox), set.length)
            }
            _ => return 0,
        };
        match incoming {
            Incoming::Whole => 0,
            Incoming::Pending(pending) => {
                let value = LongValue { line: line.text.into(), pending, end: ArrayVec::new() };
                dialogue.phase = Phase::Value(Box::new(value));
                line.length
            }
            Incoming::Refused => {
                dialogue.phase = Phase::Swallow(u64::from(length) + 2);
                line.length
            }
        }
    }

    /// A piece of a long value.
    fn value(&mut self, dialogue: &mut Dialogue<S>, input: &[u8], outbox: &mut Outbox<S::Pin>) -> usize {
        let Phase::Value(value) = &mut dialogue.phase else {
            return 0;
        };
        let missing = value.pending.missing();
        let part = input.len().min(missing);
        if self.executor.extend(&mut value.pending, &input[..part]).is_err() {
            let left = (missing - part) as u64 + 2;
            if let Phase::Value(value) = std::mem::replace(&mut dialogue.phase, Phase::Swallow(left)) {
                self.give_up(&value.line, outbox);
            }
            return part;
        }
        let end = &input[part..input.len().min(part + value.end.remaining_capacity())];
        value.end.extend(end.iter().copied());
        let taken = part + end.len();
        if value.end.is_full()
            && let Phase::Value(value) = std::mem::take(&mut dialogue.phase)
        {
            self.finish_value(*value, outbox);
        }
        taken
    }

    /// There is no memory for what is still to come of a value.
    fn give_up(&mut self, line: &[u8], outbox: &mut Outbox<S::Pin>) {
        match parse(Line { text: line, length: line.len() + 2 }) {
            Ok(Command::Store(store)) => self.executor.give_up(&store, outbox),
            Ok(Command::Meta(Meta::Set(set))) => {
                let mut buffer = [0; 336];
                self.executor.meta_give_up(set.key.bytes(&mut buffer), outbox);
            }
            _ => {}
        }
    }

    fn finish_value(&mut self, value: LongValue<S::Pending>, outbox: &mut Outbox<S::Pin>) {
        let Ok(command) = parse(Line { text: &value.line, length: value.line.len() + 2 }) else {
            return;
        };
        let whole = value.end.as_slice() == b"\r\n";
        match &command {
            Command::Store(store) if whole => {
                let hash = self.executor.prefetch(store.key);
                let key = Key { bytes: store.key, hash };
                self.executor.store(key, S::Guess::default(), store, Data::Pending(value.pending), outbox);
            }
            Command::Meta(Meta::Set(set)) if whole => {
                let mut buffer = [0; 336];
                let bytes = set.key.bytes(&mut buffer);
                let key = Key { bytes, hash: self.executor.prefetch(bytes) };
                self.executor.meta_set(key, S::Guess::default(), set, Data::Pending(value.pending), outbox);
            }
            other => bad_block(other, outbox),
        }
    }

    /// The rest of the keys of a get.
    fn more_keys(
        &mut self,
        dialogue: &mut Dialogue<S>,
        input: &[u8],
        unique: Unique,
        touch: Option<Exptime>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Cut::Line(line) = cut(input) else {
            dialogue.phase = Phase::Over;
            return 0;
        };
        dialogue.phase = Phase::Command;
        let left = self.keys(dialogue, Keys::of(line.text), unique, touch, outbox);
        left.map_or(line.length, |left| line.text.len() - left)
    }

    /// Answers the keys of a get until the outbox is full. Returns how many bytes of the line's text are left then.
    fn keys(
        &mut self,
        dialogue: &mut Dialogue<S>,
        mut keys: Keys<'_>,
        unique: Unique,
        touch: Option<Exptime>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Option<usize> {
        loop {
            let mut batch = ArrayVec::<(Key<'_>, usize, S::Guess), BATCH>::new();
            let what = if touch.is_none() { Use::Read } else { Use::Write };
            let mut before = keys.rest();
            while !batch.is_full()
                && let Some(bytes) = keys.next()
            {
                let hash = self.executor.hash(bytes);
                if self.is_here(hash, || what) {
                    self.executor.prefetch_hash(hash);
                }
                batch.push((Key { bytes, hash }, keys.rest(), S::Guess::default()));
            }
            if batch.is_empty() {
                outbox.buffer().put(b"END\r\n");
                return None;
            }
            for (key, _, guess) in &mut batch {
                if self.is_here(key.hash, || what) {
                    *guess = self.executor.prefetch_item(key.hash);
                }
            }
            for _ in 0..Executor::<S>::PREFETCH_STEPS {
                batch.iter_mut().for_each(|(_, _, guess)| self.executor.prefetch_next(guess));
            }
            dialogue.slice.executed(batch.len());
            for (key, rest, guess) in &batch {
                match self.route_one_of_keys(dialogue, key.bytes, key.hash, (unique, touch), outbox) {
                    Route::Here => {}
                    Route::Posted => {
                        before = *rest;
                        continue;
                    }
                    Route::Waits => {
                        dialogue.phase = Phase::Keys(unique, touch);
                        return Some(before);
                    }
                }
                before = *rest;
                let answered = match touch {
                    None => self.executor.get(*key, *guess, unique, outbox),
                    Some(time) => self.executor.get_and_touch(*key, time, unique, outbox),
                };
                if answered == Answered::Refused {
                    return None;
                }
                if outbox.weight() >= self.full && *rest > 0 {
                    dialogue.phase = Phase::Keys(unique, touch);
                    return Some(*rest);
                }
            }
            if dialogue.slice.is_cut() && before > 0 {
                dialogue.phase = Phase::Keys(unique, touch);
                return Some(before);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn execute(
        &mut self,
        dialogue: &mut Dialogue<S>,
        entry: &Entry<'_, S::Guess>,
        outbox: &mut Outbox<S::Pin>,
    ) {
        match &entry.command {
            Command::Get(Get { keys, unique, touch }) => {
                let Some(bytes) = keys.single() else {
                    return;
                };
                let key = Key { bytes, hash: entry.hash };
                let answered = match touch {
                    None => self.executor.get(key, entry.guess, *unique, outbox),
                    Some(time) => self.executor.get_and_touch(key, *time, *unique, outbox),
                };
                if answered == Answered::Wholly {
                    outbox.buffer().put(b"END\r\n");
                }
            }
            Command::Store(store) => match value_of(entry.data) {
                Some(value) => {
                    let key = Key { bytes: store.key, hash: entry.hash };
                    self.executor.store(key, entry.guess, store, Data::Bytes(value), outbox);
                }
                None => bad_block(&entry.command, outbox),
            },
            Command::Delete(delete) => {
                let key = Key { bytes: delete.key, hash: entry.hash };
                self.executor.delete(key, delete, outbox);
            }
            Command::Arithmetic(command) => {
                let key = Key { bytes: command.key, hash: entry.hash };
                self.executor.arithmetic(key, command, outbox);
            }
            Command::Touch(touch) => {
                let key = Key { bytes: touch.key, hash: entry.hash };
                self.executor.touch(key, touch, outbox);
            }
            Command::Meta(meta) => self.meta(meta, entry, outbox),
            Command::MetaNoop => outbox.buffer().line("MN"),
            Command::MetaDebug(key) => {
                let mut buffer = [0; 336];
                let key = Key { bytes: key.bytes(&mut buffer), hash: entry.hash };
                self.executor.meta_debug(key, outbox);
            }
            other => self.rare(dialogue, other, outbox),
        }
    }

    fn meta(&mut self, meta: &Meta<'_>, entry: &Entry<'_, S::Guess>, outbox: &mut Outbox<S::Pin>) {
        let asked = match meta {
            Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _) => get.key,
            Meta::Set(set) => set.key,
        };
        let mut buffer = [0; 336];
        let key = Key { bytes: asked.bytes(&mut buffer), hash: entry.hash };
        match meta {
            Meta::Get(get) => self.executor.meta_get(key, entry.guess, get, outbox),
            Meta::Delete(delete) => self.executor.meta_delete(key, delete, outbox),
            Meta::Arithmetic(command, direction) => {
                self.executor.meta_arithmetic(key, command, *direction, outbox);
            }
            Meta::Set(set) => {
                let Some(value) = value_of(entry.data) else {
                    return bad_block(&entry.command, outbox);
                };
                self.executor.meta_set(key, entry.guess, set, Data::Bytes(value), outbox);
            }
        }
    }

    fn rare(&mut self, dialogue: &mut Dialogue<S>, command: &Command<'_>, outbox: &mut Outbox<S::Pin>) {
        match command {
            Command::FlushAll { delay, noreply } => say(outbox, *noreply, self.flush_all(*delay)),
            Command::Version => outbox.buffer().line(&self.admin.version_line()),
            Command::Verbosity { level, noreply } => {
                self.admin.set_verbosity(*level);
                say(outbox, *noreply, "OK");
            }
            Command::Stats(arguments) => {
                if let Some(errand) = self.admin.stats(self.executor.now(), arguments, outbox.buffer()) {
                    dialogue.phase = Phase::Errand(Box::new(errand));
                }
            }
            Command::Admin(verb, rest) => self.administer(dialogue, *verb, rest, outbox),
            Command::Quit => {
                dialogue.phase = Phase::Over;
                dialogue.ends = CloseReason::Normal;
            }
            _ => {}
        }
    }

    /// Carries out a flush_all, and tells how it went.
    fn flush_all(&mut self, delay: Option<Exptime>) -> &'static str {
        let at = self.executor.flush_time(delay.unwrap_or_default());
        if !self.shared.permissions.flush_all {
            return "CLIENT_ERROR flush_all not allowed";
        }
        if delay.is_none() {
            return "CLIENT_ERROR invalid exptime argument";
        }
        if let Some(at) = at {
            self.admin.flush(self.executor.now(), at);
        }
        "OK"
    }

    /// Carries out a command about the server.
    fn administer(
        &mut self,
        dialogue: &mut Dialogue<S>,
        verb: AdminVerb,
        rest: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) {
        let noreply = if verb.takes_noreply() { noreply(rest) } else { Noreply::No };
        match self.admin.carry_out(verb, rest) {
            Answer::Line(line) => say(outbox, noreply, &line),
            Answer::Close => {
                dialogue.phase = Phase::Over;
                dialogue.ends = CloseReason::Shutdown;
            }
            Answer::Alone(name, _) if !outbox.is_settled() => {
                say(outbox, noreply, &format!("ERROR cannot pipeline other commands before {name}"));
            }
            Answer::Alone(_, Ok(errand)) => dialogue.phase = Phase::Errand(Box::new(errand)),
            Answer::Alone(_, Err(line)) => say(outbox, noreply, line),
        }
    }
}

/// What [`Interpreter::parse_one`] finds that does not go into a batch.
#[derive(Debug)]
pub(crate) enum Special<'a> {
    /// The line has not ended.
    Unfinished,
    /// The line is too long.
    TooLong,
    /// The line is wrong; its length.
    Fault(Fault, usize),
    /// A get of several keys.
    Keys(Get<'a>, Line<'a>),
    /// A store whose data has not arrived altogether.
    Incomplete(Line<'a>),
}

/// The data block of `length` bytes at `at`, with its line end, if all of it is there.
#[inline(always)]
fn block(input: &[u8], at: usize, length: u32) -> Option<&[u8]> {
    input.get(at..at.checked_add(length as usize + 2)?)
}

/// The value in a data block, if it ends as it must.
#[inline(always)]
fn value_of(block: &[u8]) -> Option<&[u8]> {
    block.strip_suffix(b"\r\n")
}

fn say<P: guira_contract::ValuePin>(outbox: &mut Outbox<P>, noreply: Noreply, text: &str) {
    if noreply == Noreply::No {
        outbox.buffer().line(text);
    }
}

/// The data block does not end as it must. ms tells so even if it is quiet.
fn bad_block<P: guira_contract::ValuePin>(command: &Command<'_>, outbox: &mut Outbox<P>) {
    let noreply = match command {
        Command::Store(store) => store.noreply,
        _ => Noreply::No,
    };
    say(outbox, noreply, "CLIENT_ERROR bad data chunk");
}
