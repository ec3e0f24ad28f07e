//! Client requests in flight, and their replies.

use crate::arrivals::Arrivals;
use crate::render::{self, Form, RequestKey, Uniques};
use crate::ticket::Ticket;
use guira_protocol::client::{Value, are_equal};
use guira_routing::{Answer, Outcome};
use guira_serving::{ALONE_MAX, ReplyTo, SlotId};
use guira_upstream::answers::found;
use std::ops::Range;

/// The requests of clients that have no reply yet.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    vacant: Vec<u32>,
    /// The bytes of the buffers of vacant calls.
    spare: usize,
    done: Vec<Reply>,
    length: usize,
    bytes: Vec<u8>,
    /// The bytes of replies to several keys that wait for the other keys …
    held: usize,
    /// … and may take: a request of which one comes beyond that has failed.
    held_max: usize,
    /// The arrivals at counted pools.
    pub(crate) arrivals: Arrivals,
}

/// A request of a client, for one key or several.
#[derive(Debug)]
struct Call {
    to: ReplyTo,
    slot: SlotId,
    form: Form,
    keys: KeyCount,
    /// The number of keys without a reply. One more while the client still names keys.
    missing: u32,
    parts: Vec<Part>,
    /// The keys as the client has sent them; then the flags that a reply repeats, or the replies to
    /// several keys.
    bytes: Vec<u8>,
    /// The length of these replies together.
    found: usize,
    /// The first failure among the keys, in the form for the client.
    failure: Option<Range<usize>>,
}

/// Whether a request has one key or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCount {
    One,
    /// Several, and perhaps more keys of the same request in the next call.
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

/// The size of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplySize {
    pub(crate) keys: u32,
    pub(crate) bytes: usize,
    /// Bytes of all replies, even if the client receives a failure instead.
    pub(crate) found: usize,
    /// Whether a get has failed that has further keys.
    pub(crate) has_failed_part: bool,
}

/// The position of a reply's bytes.
#[derive(Clone, Debug)]
enum Text {
    One(Range<usize>),
    /// In the call with this number, part by part.
    Parts(u32),
}

/// The most bytes that all vacant calls keep.
const SPARE_MAX: usize = 4 << 20;
/// The most bytes of replies that are kept.
const KEPT_MAX: usize = 1 << 20;
/// A call with more keys than this frees their memory.
const PARTS_MAX: usize = 1024;
const TOO_MUCH: Answer<'static> =
    Answer { line: b"SERVER_ERROR out of memory for replies", ..Answer::of(Outcome::LocalError) };

/// The end of a reply to a get of several keys.
const END: &[u8] = b"END\r\n";

impl Calls {
    /// `held_max` is the limit in bytes of replies to gets of several keys that wait for the other
    /// keys.
    pub(crate) fn new(held_max: usize) -> Self {
        Calls { held_max, ..Calls::default() }
    }

    /// Starts a call. Each of several keys is named by [`Calls::key`], and may be answered from
    /// then on; [`Calls::end_of_keys`] ends them.
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

    /// Adds the flags that the reply to a meta command repeats, behind its key.
    pub(crate) fn repeat(&mut self, ticket: Ticket, flags: &[u8]) {
        self.calls[ticket.call as usize].bytes.extend_from_slice(flags);
    }

    /// Ends the keys of a request; `ends` says whether the reply ends with them.
    pub(crate) fn end_of_keys(&mut self, number: u32, ends: Ends) {
        let call = &mut self.calls[number as usize];
        call.keys = KeyCount::Many(ends);
        call.missing -= 1;
        self.complete(number);
    }

    /// The form of the reply for the client.
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

    /// Records an item in a server's form; the same as [`Calls::answer`], but faster.
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

    /// Completes the reply to a request with several keys, if no key is missing.
    #[inline]
    fn complete(&mut self, number: u32) {
        let call = &self.calls[number as usize];
        if call.missing == 0 {
            self.length += call.length();
            self.done.push(Reply { to: call.to, slot: call.slot, text: Text::Parts(number) });
        }
    }

    /// The length of the complete replies.
    pub(crate) fn done_bytes(&self) -> usize {
        self.length
    }

    /// The number of requests in flight; a get of several keys counts as one.
    pub(crate) fn under_way(&self) -> usize {
        self.calls.len() - self.vacant.len()
    }

    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// The replies from this index on.
    pub(crate) fn replies(&self, from: usize) -> &[Reply] {
        &self.done[from..]
    }

    /// The size of these replies.
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

    /// The bytes of a reply that [`guira_serving::Clients::answer_alone`] may send. Replies about
    /// several keys are joined in `scratch`, which is empty.
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

    /// Groups the replies by client, each in the order of completion.
    pub(crate) fn sort(&mut self) {
        self.done.sort_by_key(|reply| reply.to.place());
    }

    /// Removes the replies from this index on.
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

    /// The key of a request with one key.
    fn request_key(&self) -> RequestKey<'_> {
        let end = self.parts.first().map_or(0, |part| part.key.end as usize);
        let (key, repeated) = self.bytes.split_at(end);
        RequestKey { key, repeated }
    }

    /// The bytes of the replies to several keys.
    fn replies(&self) -> usize {
        self.found + self.failure.as_ref().map_or(0, Range::len)
    }

    /// The length of the reply, once all keys are answered.
    fn length(&self) -> usize {
        let end = if self.keys == KeyCount::Many(Ends::Here) { END.len() } else { 0 };
        self.failure.as_ref().map_or(self.found + end, Range::len)
    }

    /// Appends the reply to `out`, once all keys are answered.
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
