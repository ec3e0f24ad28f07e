//! Clients' requests that are under way, and their replies.

use crate::arrivals::Arrivals;
use crate::render::{self, Form, RequestKey, Uniques};
use crate::ticket::Ticket;
use guira_protocol::client::{Value, are_equal};
use guira_routing::{Answer, Outcome};
use guira_serving::{ALONE_MAX, ReplyTo, SlotId};
use guira_upstream::answers::found;
use std::ops::Range;

/// What clients have asked and were not answered.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    vacant: Vec<u32>,
    /// What the buffers of vacant ones take.
    spare: usize,
    done: Vec<Reply>,
    length: usize,
    bytes: Vec<u8>,
    /// What replies about several keys take that wait for others …
    held: usize,
    /// … and may take: a request of which one comes beyond that has failed.
    held_max: usize,
    /// Of those that are counted for pools.
    pub(crate) arrivals: Arrivals,
}

/// A request of a client, for one key or several.
#[derive(Debug)]
struct Call {
    to: ReplyTo,
    slot: SlotId,
    form: Form,
    keys: KeyCount,
    /// How many keys were not answered. One more while a client still names them.
    missing: u32,
    parts: Vec<Part>,
    /// The keys as the client has sent them; then the flags that a reply repeats, or the replies about several keys.
    bytes: Vec<u8>,
    /// How long these replies are together.
    found: usize,
    /// The first failure among the keys, as the client receives it.
    failure: Option<Range<usize>>,
}

/// How many keys a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCount {
    One,
    /// Several, and perhaps more of the same request in the next call.
    Many(Ends),
}

/// Whether the reply to a get ends with these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Here,
    Later,
}

/// A key of a request, and its reply.
#[derive(Clone, Debug, Default)]
struct Part {
    key: Range<u32>,
    reply: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) to: ReplyTo,
    pub(crate) slot: SlotId,
    text: Text,
}

/// How much there is of some replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplySize {
    pub(crate) keys: u32,
    pub(crate) bytes: usize,
    /// Bytes of all replies, although the client receives a failure instead.
    pub(crate) found: usize,
    /// Whether a get has failed some of whose keys were not asked for yet.
    pub(crate) has_failed_part: bool,
}

/// Where the bytes of a reply are.
#[derive(Clone, Debug)]
enum Text {
    One(Range<usize>),
    /// In the call with this number, part by part.
    Parts(u32),
}

/// Vacant calls keep no more than this together.
const SPARE_MAX: usize = 4 << 20;
/// This many bytes of replies are kept.
const KEPT_MAX: usize = 1 << 20;
/// A call that had more keys than this gives their memory back.
const PARTS_MAX: usize = 1024;
const TOO_MUCH: Answer<'static> =
    Answer { line: b"SERVER_ERROR out of memory for replies", ..Answer::of(Outcome::LocalError) };

/// What ends the reply to a get of several keys.
const END: &[u8] = b"END\r\n";

impl Calls {
    /// Replies to gets of several keys that wait for others of these take no more than `held_max` bytes, and one reply.
    pub(crate) fn new(held_max: usize) -> Self {
        Calls { held_max, ..Calls::default() }
    }

    /// A client has asked something. Of several keys each is named by [`Calls::key`] and can be answered from then on;
    /// [`Calls::end_of_keys`] says that there are no more.
    #[inline]
    pub(crate) fn begin(&mut self, to: ReplyTo, slot: SlotId, form: Form, keys: KeyCount) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.calls.len() as u32);
        let missing = u32::from(keys != KeyCount::One);
        if let Some(call) = self.calls.get_mut(number as usize) {
            self.spare -= call.bytes.capacity();
            (call.to, call.slot, call.form, call.keys, call.missing) = (to, slot, form, keys, missing);
        } else {
            let (parts, bytes) = (Vec::new(), Vec::new());
            self.calls.push(Call { to, slot, form, keys, missing, parts, bytes, found: 0, failure: None });
        }
        number
    }

    /// Adds a key to the request.
    #[inline]
    pub(crate) fn key(&mut self, call: u32, key: &[u8]) -> Ticket {
        let it = &mut self.calls[call as usize];
        let from = it.bytes.len() as u32;
        it.bytes.extend_from_slice(key);
        it.parts.push(Part { key: from..it.bytes.len() as u32, reply: 0..0 });
        it.missing += 1;
        Ticket { call, part: it.parts.len() as u32 - 1 }
    }

    /// Adds what a reply to a meta command repeats, behind its key.
    pub(crate) fn repeat(&mut self, ticket: Ticket, flags: &[u8]) {
        self.calls[ticket.call as usize].bytes.extend_from_slice(flags);
    }

    /// All of several keys are named, and the reply ends with them or not.
    pub(crate) fn end_of_keys(&mut self, number: u32, ends: Ends) {
        let call = &mut self.calls[number as usize];
        call.keys = KeyCount::Many(ends);
        call.missing -= 1;
        self.complete(number);
    }

    /// The form of the reply that a client expects.
    pub(crate) fn form(&self, ticket: Ticket) -> Form {
        self.calls[ticket.call as usize].form
    }

    #[inline]
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        let call = &mut self.calls[ticket.call as usize];
        call.missing -= 1;
        if call.keys != KeyCount::One {
            let before = call.bytes.len();
            let answer = if self.held > self.held_max { &TOO_MUCH } else { answer };
            call.add(ticket.part as usize, answer);
            self.held += call.bytes.len() - before;
            return self.complete(ticket.call);
        }
        let from = self.bytes.len();
        render::whole(call.form, call.request_key(), answer, &mut self.bytes);
        let text = Text::One(from..self.bytes.len());
        self.done.push(Reply { to: call.to, slot: call.slot, text });
        self.length += self.bytes.len() - from;
        self.vacate(ticket.call);
    }

    /// An item was found, as a server has sent it: the same as [`Calls::answer`] does.
    #[inline]
    pub(crate) fn item(&mut self, ticket: Ticket, value: &Value<'_>) {
        let call = &mut self.calls[ticket.call as usize];
        let is_plain = call.form == Form::Get(Uniques::Omitted) && value.number.is_none();
        if call.keys == KeyCount::One || !is_plain || self.held > self.held_max {
            return self.answer(ticket, &found(value));
        }
        let Call { parts, bytes, .. } = call;
        let part = &mut parts[ticket.part as usize];
        if !are_equal(&bytes[part.key.start as usize..part.key.end as usize], value.key) {
            return self.answer(ticket, &found(value));
        }
        let from = bytes.len();
        bytes.extend_from_slice(value.block);
        part.reply = from..bytes.len();
        call.found += value.block.len();
        self.held += value.block.len();
        call.missing -= 1;
        self.complete(ticket.call);
    }

    #[inline]
    fn vacate(&mut self, number: u32) {
        let call = &mut self.calls[number as usize];
        if call.keys != KeyCount::One {
            self.held -= call.replies();
        }
        call.forget();
        if self.spare + call.bytes.capacity() > SPARE_MAX {
            call.bytes = Vec::new();
        }
        self.spare += call.bytes.capacity();
        self.vacant.push(number);
    }

    /// The reply to a request with several keys is complete, if no key is missing.
    #[inline]
    fn complete(&mut self, number: u32) {
        let call = &self.calls[number as usize];
        if call.missing == 0 {
            self.length += call.length();
            self.done.push(Reply { to: call.to, slot: call.slot, text: Text::Parts(number) });
        }
    }

    /// How long the replies that are complete are.
    pub(crate) fn done_bytes(&self) -> usize {
        self.length
    }

    /// How many requests are under way, a get of several keys being one.
    pub(crate) fn under_way(&self) -> usize {
        self.calls.len() - self.vacant.len()
    }

    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// The replies from this one on.
    pub(crate) fn replies(&self, from: usize) -> &[Reply] {
        &self.done[from..]
    }

    /// How much there is of some replies together.
    pub(crate) fn size(&self, replies: &[Reply]) -> ReplySize {
        let mut size = ReplySize::default();
        for reply in replies {
            match &reply.text {
                Text::One(bytes) => {
                    size.keys += 1;
                    size.bytes += bytes.len();
                    size.found += bytes.len();
                }
                Text::Parts(number) => {
                    let call = &self.calls[*number as usize];
                    size.keys += call.parts.len() as u32;
                    size.bytes += call.length();
                    size.found += call.replies();
                    size.has_failed_part |=
                        call.keys == KeyCount::Many(Ends::Later) && call.failure.is_some();
                }
            }
        }
        size
    }

    fn length(&self, reply: &Reply) -> usize {
        match &reply.text {
            Text::One(bytes) => bytes.len(),
            Text::Parts(number) => self.calls[*number as usize].length(),
        }
    }

    /// Appends a reply to `out`.
    pub(crate) fn write(&self, reply: &Reply, out: &mut Vec<u8>) {
        match &reply.text {
            Text::One(bytes) => out.extend_from_slice(&self.bytes[bytes.clone()]),
            Text::Parts(number) => self.calls[*number as usize].join(out),
        }
    }

    /// A reply that [`guira_serving::Clients::answer_alone`] may send. `scratch` is empty, and takes one about several keys.
    pub(crate) fn short<'a>(&'a self, reply: &Reply, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match &reply.text {
            _ if self.length(reply) > ALONE_MAX => None,
            Text::One(bytes) => Some(&self.bytes[bytes.clone()]),
            Text::Parts(number) => {
                self.calls[*number as usize].join(scratch);
                Some(scratch)
            }
        }
    }

    /// Puts replies to one client next to each other, in the order in which they were complete.
    pub(crate) fn sort(&mut self) {
        self.done.sort_by_key(|reply| reply.to.place());
    }

    /// Forgets the replies from this one on.
    pub(crate) fn forget(&mut self, from: usize) {
        let mut bytes = self.bytes.len();
        for index in from..self.done.len() {
            self.length -= self.length(&self.done[index]);
            match &self.done[index].text {
                Text::One(range) => bytes = bytes.min(range.start),
                Text::Parts(number) => self.vacate(*number),
            }
        }
        self.done.truncate(from);
        self.bytes.truncate(bytes);
        if from == 0 {
            self.bytes.shrink_to(KEPT_MAX);
        }
    }
}

impl Call {
    #[inline]
    fn add(&mut self, part: usize, answer: &Answer<'_>) {
        let from = self.bytes.len();
        let key = self.parts[part].key.clone();
        if answer.outcome.is_error() {
            if self.failure.is_none() {
                render::failure(answer, &mut self.bytes);
                self.failure = Some(from..self.bytes.len());
            }
            return;
        }
        render::part(self.form, key.start as usize..key.end as usize, answer, &mut self.bytes);
        self.parts[part].reply = from..self.bytes.len();
        self.found += self.bytes.len() - from;
    }

    /// What the client has asked about one key.
    fn request_key(&self) -> RequestKey<'_> {
        let end = self.parts.first().map_or(0, |part| part.key.end as usize);
        let (key, repeated) = self.bytes.split_at(end);
        RequestKey { key, repeated }
    }

    /// What the replies about several keys take.
    fn replies(&self) -> usize {
        self.found + self.failure.as_ref().map_or(0, Range::len)
    }

    /// How long the reply is, once all keys were answered.
    fn length(&self) -> usize {
        let end = if self.keys == KeyCount::Many(Ends::Here) { END.len() } else { 0 };
        self.failure.as_ref().map_or(self.found + end, Range::len)
    }

    /// Appends the reply to `out`, once all keys were answered.
    fn join(&self, out: &mut Vec<u8>) {
        if let Some(failure) = &self.failure {
            return out.extend_from_slice(&self.bytes[failure.clone()]);
        }
        for part in &self.parts {
            out.extend_from_slice(&self.bytes[part.reply.clone()]);
        }
        if self.keys == KeyCount::Many(Ends::Here) {
            out.extend_from_slice(END);
        }
    }

    #[inline]
    fn forget(&mut self) {
        self.parts.clear();
        self.parts.shrink_to(PARTS_MAX);
        self.bytes.clear();
        (self.found, self.failure) = (0, None);
    }
}
