//! Turns the input of clients into requests: lines of the text protocol, packets of the binary
//! protocol.

mod metaget;
mod packets;
mod window;

use crate::admin;
use crate::calls::{Ends, KeyCount};
use crate::counters::Event;
use crate::failures::{self, BAD_KEY, Syntax, command_disabled};
use crate::flow::Flow;
use crate::no_pin::NoPin;
use crate::options::{Flushes, Operations};
use crate::render::{Form, Quiet, Uniques, tears_lines};
use crate::shared::Shared;
use crate::stats;
use crate::ticket::Ticket;
use guira_protocol::binary::REQUEST_MAGIC;
use guira_protocol::{
    BAD_FORMAT, Command, Cut, Direction, Exptime, Fault, Get, GetForm, KeyBuffer, Keys, Line, Meta,
    MetaFlags, MetaGet, MetaSet, Noreply, Replies, ServerCommand, Store, UNKNOWN, Unique, Verb, cut, parse,
};
use guira_routing::hash::spooky;
use guira_routing::{Answer, Dialect, Group, KEY_MAX, Op, Outcome, Request, Sink as _, Walks};
use guira_serving::Access;
use guira_serving::{CloseReason, Conversation, Outbox, ReplyTo, Slice, Speaks, Stopped};
use guira_upstream::VALUE_MAX;
use std::net::IpAddr;
use window::Window;

pub(crate) use window::Length;

/// The state of a client between two reads of its input.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) from: ReplyTo,
    /// All clients on one host have the same number.
    pub(crate) host: u64,
    speaks: Speaks,
    /// The bytes of a refused data block that are still to be skipped.
    swallow: u64,
    partial_block: PartialBlock,
    /// The input continues with keys of a get.
    rest: Option<RestOfGet>,
    window: Window,
    /// When replies were first held back for other replies of the same client, in the worker's
    /// milliseconds.
    pub(crate) held_ms: Option<u64>,
}

/// The rest of a get with many keys, which are requested in parts.
#[derive(Clone, Copy, Debug)]
struct RestOfGet {
    form: GetForm,
    /// The client has received a failure, and receives nothing more for this get.
    has_failed: bool,
}

/// Whether a data block has arrived in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartialBlock {
    No,
    Yes,
}

impl Conversation for Client {
    fn speaks(&self) -> Speaks {
        self.speaks
    }

    fn access(&self) -> Access {
        Access::Free
    }

    fn has_partial_request(&self) -> bool {
        self.swallow > 0 || self.partial_block == PartialBlock::Yes || self.rest.is_some()
    }
}

/// The keys of one get that are sent at once. The others wait until the client has received the
/// replies to these.
pub(crate) const KEYS_MAX: usize = 1024;

/// The parts of a worker that a client's requests use.
pub(crate) struct Turn<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) walks: &'a mut Walks<Ticket>,
    pub(crate) flow: &'a mut Flow,
    pub(crate) outbox: &'a mut Outbox<NoPin>,
    pub(crate) shared: &'a Shared,
    /// The size in bytes at which the outbox counts as full.
    pub(crate) full: usize,
    /// The usual length of a reply on this worker.
    pub(crate) usual: Length,
    /// The share of the last request in the client's turn: each key of a get counts.
    pub(crate) executed: usize,
    pub(crate) refuses: Refuses,
}

/// Whether requests are refused because too many are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    No,
    Yes,
}

/// What happens to a request once the maximum is in flight.
enum Room {
    For(usize),
    Nowhere,
}

enum After {
    Taken(usize),
    Unfinished,
    Over(CloseReason),
}

impl Client {
    pub(crate) fn new(from: ReplyTo, speaks: Speaks, host: Option<IpAddr>) -> Self {
        let host = host.map_or(0, |host| {
            let bits = host.to_canonical().to_string();
            u64::from(spooky::hash32(bits.as_bytes(), 0))
        });
        let (partial_block, rest, window) = (PartialBlock::No, None, Window::default());
        Client { from, host, speaks, swallow: 0, partial_block, rest, window, held_ms: None }
    }

    /// Records the replies to this many keys, with `bytes` together; `usual` is the length for
    /// other clients.
    pub(crate) fn answered(&mut self, keys: u32, bytes: usize, usual: Length) {
        self.window.answered(keys, bytes, usual);
    }

    /// Records a failure of one part of a get, after which the client receives nothing for its
    /// rest.
    pub(crate) fn note_failure(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.has_failed = true;
        }
    }
}

impl Turn<'_> {
    /// Reads requests and routes them. Returns the number of bytes taken, and the reason for
    /// stopping.
    pub(crate) fn run(&mut self, slice: &mut Slice, input: &[u8]) -> (usize, Stopped) {
        if let (Speaks::Any, Some(first)) = (self.client.speaks, input.first()) {
            self.client.speaks = if *first == REQUEST_MAGIC { Speaks::Binary } else { Speaks::Text };
        }
        match self.client.speaks {
            Speaks::Binary => self.packets(slice, input),
            Speaks::Any | Speaks::Text => self.requests(slice, input, Self::line),
        }
    }

    /// Runs the requests of one protocol, each of which `request` reads.
    #[inline(always)]
    fn requests(
        &mut self,
        slice: &mut Slice,
        input: &[u8],
        request: impl Fn(&mut Self, &[u8]) -> After,
    ) -> (usize, Stopped) {
        let before = self.flow.calls.done_bytes();
        let mut room = self.flow.room();
        let mut at = 0;
        self.client.partial_block = PartialBlock::No;
        loop {
            if self.client.swallow > 0 {
                let taken =
                    (input.len() - at).min(usize::try_from(self.client.swallow).unwrap_or(usize::MAX));
                self.client.swallow -= taken as u64;
                at += taken;
            }
            if at == input.len() {
                return (at, Stopped::NeedsInput);
            }
            // Only the router's own replies can be long here. Replies of servers are handed out
            // later.
            if slice.is_cut() || self.flow.calls.done_bytes() - before > self.full {
                return (at, Stopped::SliceOver);
            }
            if self.outbox.open_slots() >= self.shared.limits.client_requests()
                || self.outbox.weight() >= self.full
                || self.client.window.is_closed(self.full, self.usual)
            {
                return (at, Stopped::OutboxFull);
            }
            if room == 0 {
                match self.find_room(&input[at..]) {
                    Room::For(requests) => room = requests,
                    Room::Nowhere => return (at, Stopped::OutboxFull),
                }
            }
            room -= 1;
            self.executed = 1;
            match request(self, &input[at..]) {
                After::Taken(taken) => {
                    at += taken;
                    slice.executed(self.executed);
                    // The rest of a get is requested after the replies to its first part were sent.
                    if self.client.rest.is_some() {
                        return (at, Stopped::OutboxFull);
                    }
                }
                After::Unfinished => return (at, Stopped::NeedsInput),
                After::Over(reason) => return (at, Stopped::Over(reason)),
            }
        }
    }

    /// Checks again for room once the maximum of requests was in flight.
    #[cold]
    fn find_room(&mut self, input: &[u8]) -> Room {
        self.refuses = Refuses::No;
        let room = self.flow.room();
        if room > 0 || self.flow.is_released(self.client.from) || self.is_about_router(input) {
            return Room::For(room.max(1));
        }
        // The client continues when it has received the replies that it waits for.
        if self.outbox.open_slots() > 0 {
            return Room::Nowhere;
        }
        if !self.flow.may_wait() {
            self.refuses = Refuses::Yes;
            return Room::For(1);
        }
        self.client.window.sent(1);
        self.flow.hold_back(self.client.from, self.outbox.defer());
        Room::Nowhere
    }

    /// Whether the router itself replies to a request, so that the request is served even under
    /// overload.
    fn is_about_router(&self, input: &[u8]) -> bool {
        match self.client.speaks {
            // quit, noop, version, stat and quitq.
            Speaks::Binary => matches!(input.get(1), Some(0x07 | 0x0a | 0x0b | 0x10 | 0x17)),
            Speaks::Any | Speaks::Text => {
                [b"stats".as_slice(), b"version", b"quit", b"mn"].iter().any(|word| input.starts_with(word))
            }
        }
    }

    #[inline]
    fn line(&mut self, input: &[u8]) -> After {
        let line = match cut(input) {
            Cut::Line(line) => line,
            Cut::Unfinished => return After::Unfinished,
            Cut::TooLong => return After::Over(CloseReason::Error),
        };
        if let Some(rest) = self.client.rest.take() {
            return After::Taken(self.keys(rest, Keys::of(line.text), line));
        }
        let command = match parse(line) {
            Ok(command) => command,
            Err(fault) => return self.unusual(fault, line),
        };
        // A server might parse the bytes behind a zero byte as another request.
        if memchr::memchr(0, line.text).is_some() {
            return self.fault(zero_byte(&command), line.length);
        }
        match command {
            Command::Get(get) => return After::Taken(self.get(&get, line)),
            Command::Store(store) => return self.store(&store, input, line.length),
            Command::Delete(delete) => {
                let it = Request::classic(Op::Delete, delete.key);
                let number = u64::from(delete.hold_off.unwrap_or(0));
                self.one(&Request { number, ..it }, Form::Line(Op::Delete, delete.noreply));
            }
            Command::Arithmetic(step) => {
                let op = if step.direction == Direction::Up { Op::Incr } else { Op::Decr };
                let it = Request::classic(op, step.key);
                self.one(&Request { number: step.delta, ..it }, Form::Line(op, step.noreply));
            }
            Command::Touch(touch) => {
                let it = Request::classic(Op::Touch, touch.key);
                self.one(&Request { exptime: touch.exptime.0, ..it }, Form::Line(Op::Touch, touch.noreply));
            }
            Command::Meta(meta) => return self.meta(&meta, input, line),
            Command::MetaDebug(key) => {
                let mut buffer: KeyBuffer = [0; 336];
                let it = Request::classic(Op::MetaGet, key.bytes(&mut buffer));
                let meta: &[u8] = if key.is_binary() { b"b" } else { b"" };
                let form = Form::Meta(Op::MetaGet, Quiet::No);
                self.one(&Request { dialect: Dialect::Meta, meta, ..it }, form);
            }
            Command::Server(command) => return self.server(&command, line.length),
        }
        After::Taken(line.length)
    }

    /// Handles a line that no server understands.
    #[cold]
    fn unusual(&mut self, fault: Fault, line: Line<'_>) -> After {
        if let Some(reply) = self.shared.cluster.reply(line.text) {
            self.outbox.buffer().line(&reply);
            return After::Taken(line.length);
        }
        match metaget::keys(line.text) {
            Some(keys) => self.metaget(keys, line),
            None => match of_long_key(fault, line.text) {
                Fault::Answer(UNKNOWN | BAD_FORMAT) | Fault::Swallow { answer: BAD_FORMAT, .. }
                    if self.shared.policies.failures.syntax == Syntax::Mcrouter =>
                {
                    self.outbox.buffer().line(failures::text(Outcome::ClientError));
                    After::Over(CloseReason::Error)
                }
                fault => self.fault(fault, line.length),
            },
        }
    }

    fn fault(&mut self, fault: Fault, length: usize) -> After {
        match fault {
            Fault::Answer(text) => self.outbox.buffer().line(text),
            Fault::Silent => {}
            Fault::Close => return After::Over(CloseReason::Error),
            Fault::Swallow { answer, noreply, bytes } => {
                if noreply == Noreply::No {
                    self.outbox.buffer().line(answer);
                }
                self.client.swallow = bytes;
            }
        }
        After::Taken(length)
    }

    fn server(&mut self, command: &ServerCommand<'_>, length: usize) -> After {
        if let ServerCommand::FlushAll { delay: Some(delay), noreply } = command
            && self.passes_flushes_on()
        {
            self.flush_all(*delay, Form::Line(Op::FlushAll, *noreply));
            return After::Taken(length);
        }
        let out = self.outbox.buffer();
        match command {
            ServerCommand::MetaNoop => out.line("MN"),
            ServerCommand::Version => out.line(&format!("VERSION {}", self.shared.about.version)),
            ServerCommand::Verbosity { noreply: Noreply::Yes, .. } => {}
            ServerCommand::Verbosity { .. } => out.line("OK"),
            ServerCommand::Quit => return After::Over(CloseReason::Normal),
            ServerCommand::FlushAll { noreply: Noreply::Yes, .. }
            | ServerCommand::FlushPrefixes { noreply: Noreply::Yes, .. } => {}
            ServerCommand::FlushAll { delay: None, noreply: Noreply::No } => {
                out.line("CLIENT_ERROR invalid exptime argument");
            }
            ServerCommand::Stats(what) => stats::answer(what, self.shared, out),
            ServerCommand::FlushAll { .. } => out.line(concat!("SERVER_ERROR ", command_disabled!())),
            ServerCommand::FlushPrefixes { .. } | ServerCommand::MetaFlushPrefix(_) => {
                out.line("SERVER_ERROR the router does not pass on flushes of prefixes")
            }
            ServerCommand::Admin(..) => out.line("ERROR"),
        }
        After::Taken(length)
    }

    /// Starts a call for one key.
    #[inline]
    fn begin_call(&mut self, key: &[u8], form: Form) -> Ticket {
        self.client.window.sent(1);
        let call = self.flow.calls.begin(self.client.from, self.outbox.defer(), form, KeyCount::One);
        self.flow.calls.key(call, key)
    }

    fn passes_flushes_on(&self) -> bool {
        self.shared.policies.flushes == Flushes::PassedOn
            && self.shared.policies.operations == Operations::All
    }

    /// Sends `flush_all` to all servers.
    fn flush_all(&mut self, delay: Exptime, form: Form) {
        let ticket = self.begin_call(b"", form);
        self.flow.counters.count_request(Op::FlushAll);
        let request = Request { exptime: delay.0, ..Request::classic(Op::FlushAll, b"") };
        let facts = self.flow.facts;
        self.walks.broadcast(&request, &facts, ticket, self.flow);
    }

    /// Returns the number of bytes of the line that were handled.
    #[inline]
    fn get(&mut self, get: &Get<'_>, line: Line<'_>) -> usize {
        let Some(key) = get.keys.single() else {
            return self.keys(RestOfGet { form: get.form, has_failed: false }, get.keys, line);
        };
        let (op, form, exptime) = of_form(get.form);
        self.one(&Request { exptime, ..Request::classic(op, key) }, form);
        line.length
    }

    /// Requests the first keys of a line. Returns the number of bytes of the line that were
    /// handled.
    fn keys(&mut self, rest: RestOfGet, mut keys: Keys<'_>, line: Line<'_>) -> usize {
        if rest.has_failed {
            return line.length;
        }
        let (op, form, exptime) = of_form(rest.form);
        let many = KeyCount::Many(Ends::Here);
        let call = self.flow.calls.begin(self.client.from, self.outbox.defer(), form, many);
        let room = self.client.window.room(self.full, self.usual);
        for key in keys.by_ref().take(KEYS_MAX.min(room)) {
            self.executed += 1;
            self.client.window.sent(1);
            let ticket = self.flow.calls.key(call, key);
            self.start(&Request { exptime, ..Request::classic(op, key) }, ticket);
        }
        let left = keys.rest();
        if left == 0 {
            self.flow.calls.end_of_keys(call, Ends::Here);
            return line.length;
        }
        self.flow.calls.end_of_keys(call, Ends::Later);
        self.client.rest = Some(rest);
        line.text.len() - left
    }

    fn store(&mut self, store: &Store<'_>, input: &[u8], line: usize) -> After {
        let length = store.length as usize;
        if store.length > VALUE_MAX {
            return self.too_large(store.length, line, store.noreply);
        }
        let Some(block) = input.get(line..line + length + 2) else {
            self.client.partial_block = PartialBlock::Yes;
            return After::Unfinished;
        };
        let Some(value) = block.strip_suffix(b"\r\n") else {
            return self.bad_block(line + block.len(), store.noreply);
        };
        let (op, number) = match store.verb {
            Verb::Cas(unique) => (Op::Cas, unique),
            Verb::Lease(token) => (Op::LeaseSet, token),
            verb => (of_verb(verb), 0),
        };
        let it = Request::classic(op, store.key);
        let (flags, exptime) = (store.flags.into(), store.exptime.0);
        self.one(&Request { flags, exptime, number, value, ..it }, Form::Line(op, store.noreply));
        After::Taken(line + block.len())
    }

    fn too_large(&mut self, length: u32, line: usize, noreply: Noreply) -> After {
        self.fault(
            Fault::Swallow {
                answer: "SERVER_ERROR object too large for cache",
                noreply,
                bytes: u64::from(length) + 2,
            },
            line,
        )
    }

    /// Refuses a data block without its line end.
    fn bad_block(&mut self, taken: usize, noreply: Noreply) -> After {
        if noreply == Noreply::No {
            self.outbox.buffer().line("CLIENT_ERROR bad data chunk");
        }
        After::Taken(taken)
    }

    fn meta(&mut self, meta: &Meta<'_>, input: &[u8], line: Line<'_>) -> After {
        match meta {
            Meta::Get(get) => {
                let op = match (get.flags.vivify, get.flags.exptime) {
                    // A miss creates an item and lets one client fill it.
                    (Some(_), _) => Op::LeaseGet,
                    (None, Some(_)) => Op::Gat,
                    (None, None) => Op::Get,
                };
                self.meta_one(op, get);
            }
            Meta::Delete(get) => self.meta_one(Op::Delete, get),
            Meta::Arithmetic(get, Direction::Up) => self.meta_one(Op::Incr, get),
            Meta::Arithmetic(get, Direction::Down) => self.meta_one(Op::Decr, get),
            Meta::Set(set) => return self.meta_set(set, input, line.length),
        }
        After::Taken(line.length)
    }

    fn meta_one(&mut self, op: Op, get: &MetaGet<'_>) {
        let mut buffer: KeyBuffer = [0; 336];
        let key = get.key.bytes(&mut buffer);
        let meta = sent(&get.flags, key);
        let exptime = get.flags.exptime.filter(|_| op == Op::Gat).map_or(0, |time| time.0);
        let it = Request::classic(op, key);
        self.meta_request(&Request { dialect: Dialect::Meta, exptime, meta: &meta, ..it }, &get.flags);
    }

    fn meta_request(&mut self, request: &Request<'_>, flags: &MetaFlags<'_>) {
        let form = Form::Meta(request.op, quiet(flags));
        let ticket = self.begin_call(request.key, form);
        self.flow.calls.repeat(ticket, &repeated(flags));
        self.start(request, ticket);
    }

    fn meta_set(&mut self, set: &MetaSet<'_>, input: &[u8], line: usize) -> After {
        let length = set.length as usize;
        if set.length > VALUE_MAX {
            return self.too_large(set.length, line, Noreply::No);
        }
        let Some(block) = input.get(line..line + length + 2) else {
            self.client.partial_block = PartialBlock::Yes;
            return After::Unfinished;
        };
        let Some(value) = block.strip_suffix(b"\r\n") else {
            return self.bad_block(line + block.len(), Noreply::No);
        };
        let mut buffer: KeyBuffer = [0; 336];
        let key = set.key.bytes(&mut buffer);
        let op = if set.flags.cas.is_some() { Op::Cas } else { of_verb(set.mode.verb) };
        let meta = sent(&set.flags, key);
        let exptime = set.flags.exptime.map_or(0, |time| time.0);
        let it = Request::classic(op, key);
        self.meta_request(&Request { dialect: Dialect::Meta, exptime, meta: &meta, value, ..it }, &set.flags);
        After::Taken(line + block.len())
    }

    #[inline]
    fn one(&mut self, request: &Request<'_>, form: Form) {
        let ticket = self.begin_call(request.key, form);
        self.start(request, ticket);
    }

    #[inline]
    fn start(&mut self, request: &Request<'_>, ticket: Ticket) {
        self.flow.counters.count_request(request.op);
        if let Some(question) = admin::question(request) {
            let value = admin::answer(question, self.shared, self.walks.tree());
            return self.flow.answer(ticket, &admin::found(&value));
        }
        if self.shared.policies.operations == Operations::Gets && request.op.group() != Group::Get {
            return self.flow.answer(ticket, &default_reply(request.op));
        }
        if self.refuses == Refuses::Yes {
            self.flow.counters.add(Event::Throttled);
            return self.flow.answer(ticket, &Answer::of(Outcome::Busy));
        }
        let facts = self.flow.facts;
        self.walks.start(request, &facts, ticket, self.flow);
    }
}

fn of_form(form: GetForm) -> (Op, Form, i32) {
    match form {
        GetForm::Plain(Unique::Omitted) => (Op::Get, Form::Get(Uniques::Omitted), 0),
        GetForm::Plain(Unique::Shown) => (Op::Gets, Form::Get(Uniques::Shown), 0),
        GetForm::Touch(Unique::Omitted, Exptime(time)) => (Op::Gat, Form::Get(Uniques::Omitted), time),
        GetForm::Touch(Unique::Shown, Exptime(time)) => (Op::Gats, Form::Get(Uniques::Shown), time),
        GetForm::Lease => (Op::LeaseGet, Form::LeaseGet, 0),
    }
}

/// The reply to an operation that the route handles itself, as a NullRoute does.
fn default_reply(op: Op) -> Answer<'static> {
    Answer::of(if op.group() == Group::Update { Outcome::NotStored } else { Outcome::NotFound })
}

/// The fault of a line; mcrouter has its own fault for a key that is too long.
fn of_long_key(fault: Fault, line: &[u8]) -> Fault {
    let has_long_key = || line.split(|byte| *byte == b' ').any(|word| word.len() > KEY_MAX);
    match fault {
        Fault::Answer(BAD_FORMAT) if has_long_key() => Fault::Answer(BAD_KEY),
        Fault::Swallow { answer: BAD_FORMAT, noreply, bytes } if has_long_key() => {
            Fault::Swallow { answer: BAD_KEY, noreply, bytes }
        }
        other => other,
    }
}

/// The fault of a request with a zero byte in its line.
fn zero_byte(command: &Command<'_>) -> Fault {
    let block = |length: u32, noreply| {
        let bytes = u64::from(length) + 2;
        Fault::Swallow { answer: BAD_FORMAT, noreply, bytes }
    };
    match command {
        Command::Store(store) => block(store.length, store.noreply),
        Command::Meta(Meta::Set(set)) => block(set.length, Noreply::No),
        _ => Fault::Answer(BAD_FORMAT),
    }
}

/// The flags of a meta command that its reply repeats.
fn repeated(flags: &MetaFlags<'_>) -> Vec<u8> {
    let wanted = flags.in_order().filter(|(letter, _)| matches!(letter, b'O' | b'k' | b'b'));
    wanted.map(|(_, token)| token).collect::<Vec<_>>().join(&b' ')
}

fn quiet(flags: &MetaFlags<'_>) -> Quiet {
    if flags.quiet() { Quiet::Yes } else { Quiet::No }
}

fn of_verb(verb: Verb) -> Op {
    match verb {
        Verb::Set => Op::Set,
        Verb::Add => Op::Add,
        Verb::Replace => Op::Replace,
        Verb::Append => Op::Append,
        Verb::Prepend => Op::Prepend,
        Verb::Cas(_) => Op::Cas,
        Verb::Lease(_) => Op::LeaseSet,
    }
}

/// The flags that a meta command sends to servers: without `q`, since every reply is needed, and
/// without `k` if the key would break the line.
fn sent(flags: &MetaFlags<'_>, key: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let is_sent = |letter: u8| letter != b'q' && !(letter == b'k' && tears_lines(key));
    for (_, token) in flags.in_order().filter(|(letter, _)| is_sent(*letter)) {
        if !text.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(token);
    }
    text
}
