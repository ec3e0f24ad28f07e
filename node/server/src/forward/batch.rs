//! Requests on their way to another worker, and their replies on the way back.

use guira_commands::{Effect, Item, PIECES_MAX};
use guira_contract::{KeyHash, ValuePin};
use guira_serving::{Outbox, ReplyEnd, ReplyTo, SlotId};

/// A parsed request; its bytes are in the [`ForwardBatch`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub(super) slot: SlotId,
    pub(crate) hash: KeyHash,
    item: Item<'static>,
    /// The end of each piece of its bytes; the first piece begins at the end of the previous
    /// request.
    ends: [usize; PIECES_MAX],
    pub(crate) reply_end: ReplyEnd,
}

impl Forwarded {
    /// The end of its bytes.
    pub(crate) fn end(&self) -> usize {
        self.ends[PIECES_MAX - 1]
    }

    /// The request, with its bytes, which begin at `begin`.
    pub(crate) fn item<'b>(&self, bytes: &'b [u8], begin: usize) -> Item<'b> {
        let (mut at, mut ends) = (begin, self.ends.iter());
        self.item.relocate(&mut |_| {
            let from = at;
            at = ends.next().copied().unwrap_or(at);
            &bytes[from..at]
        })
    }
}

/// Requests with their bytes, in order.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) list: Vec<Forwarded>,
    pub(super) bytes: Vec<u8>,
}

impl Requests {
    /// Adds a request, and copies its bytes.
    pub(super) fn push(&mut self, item: &Item<'_>, hash: KeyHash, slot: SlotId) {
        let Requests { list, bytes } = self;
        let (mut ends, mut pieces) = ([bytes.len(); PIECES_MAX], 0);
        let item = item.relocate(&mut |piece| -> &'static [u8] {
            bytes.extend_from_slice(piece);
            ends[pieces..].fill(bytes.len());
            pieces += 1;
            &[]
        });
        list.push(Forwarded { slot, hash, item, ends, reply_end: ReplyEnd::default() });
    }

    /// Takes the requests from number `from` on out.
    fn split_off(&mut self, from: usize) -> Self {
        let begin = self.begin(from);
        let mut list = self.list.split_off(from);
        list.iter_mut().flat_map(|request| &mut request.ends).for_each(|end| *end -= begin);
        Requests { list, bytes: self.bytes.split_off(begin) }
    }

    /// The start of the bytes of request `number`.
    pub(super) fn begin(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.list[before].end())
    }

    /// All requests, with their bytes.
    pub(super) fn items(&self) -> impl Iterator<Item = (&Forwarded, Item<'_>)> {
        let mut begin = 0;
        self.list.iter().map(move |request| {
            let item = request.item(&self.bytes, begin);
            begin = request.end();
            (request, item)
        })
    }
}

/// Requests for another worker, and their replies.
#[derive(Debug)]
pub(crate) struct ForwardBatch<P> {
    /// The worker that has sent it.
    pub(super) from: usize,
    /// The one that it was sent to.
    pub(super) to: usize,
    pub(crate) sender: ReplyTo,
    pub(super) requests: Requests,
    /// Whether no request changes anything, so that the batch can be executed again.
    pub(super) reads_only: bool,
    /// Once the replies have this many bytes, the remaining requests are returned unexecuted.
    pub(super) full: usize,
    pub(super) done: usize,
    pub(crate) replies: Outbox<P>,
    /// Bytes of memory that it has kept since it was last emptied.
    pub(super) kept: usize,
}

/// The parts of a batch that is executed.
pub(crate) struct Parts<'b, P> {
    pub(crate) requests: &'b mut [Forwarded],
    pub(crate) bytes: &'b [u8],
    pub(crate) replies: &'b mut Outbox<P>,
    pub(crate) done: &'b mut usize,
}

/// Requests that came back as they were, since the replies to those before them were long.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(super) to: usize,
    pub(super) requests: Requests,
}

impl Leftover {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.requests.bytes.capacity() + self.requests.list.capacity() * size_of::<Forwarded>()
    }
}

/// The most bytes that a batch keeps for requests while it is not in use, and the same for replies.
const KEPT_MAX: usize = 32 << 10;

impl<P: ValuePin> ForwardBatch<P> {
    pub(super) fn new(from: usize) -> Self {
        ForwardBatch {
            from,
            to: from,
            sender: ReplyTo::default(),
            requests: Requests::default(),
            reads_only: true,
            full: 0,
            done: 0,
            replies: Outbox::with_capacity(0),
            kept: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.list.len()
    }

    /// Once the replies have this many bytes, no more requests are executed.
    pub(crate) fn full(&self) -> usize {
        self.full
    }

    /// The session and the parts that execute the requests.
    pub(crate) fn parts(&mut self) -> Parts<'_, P> {
        let Requests { list, bytes } = &mut self.requests;
        Parts { requests: list, bytes, replies: &mut self.replies, done: &mut self.done }
    }

    /// Adds a request of a connection.
    pub(super) fn push(&mut self, sender: ReplyTo, item: &Item<'_>, hash: KeyHash, slot: SlotId) {
        self.sender = sender;
        self.reads_only &= item.effect() == Effect::Read;
        self.requests.push(item, hash, slot);
    }

    /// Puts the replies to executed requests into their slots.
    pub(crate) fn fill(&mut self, outbox: &mut Outbox<P>) {
        let answered = &self.requests.list[..self.done];
        outbox.fill(answered.iter().map(|request| (request.slot, request.reply_end)), &mut self.replies);
    }

    /// There is no memory for the replies, except for the first if it is the one in `slot`, which is sent next. Reads are executed again later.
    pub(crate) fn put_off(&mut self, slot: Option<SlotId>) {
        if self.reads_only {
            let is_next = self.requests.list.first().is_some_and(|request| Some(request.slot) == slot);
            self.done = self.done.min(usize::from(is_next));
        }
    }

    /// Takes out the requests that were not executed.
    pub(crate) fn leftover(&mut self) -> Option<Leftover> {
        let requests = self.requests.split_off(self.done);
        (!requests.list.is_empty()).then_some(Leftover { to: self.to, requests })
    }

    /// Empties it, and keeps memory of no more than `most` bytes. Returns how many these are.
    pub(super) fn clear(&mut self, most: usize) -> usize {
        self.done = 0;
        self.reads_only = true;
        let Requests { list, bytes } = &mut self.requests;
        list.clear();
        bytes.clear();
        self.kept = list.capacity() * size_of::<Forwarded>() + bytes.capacity();
        if self.kept > most.min(KEPT_MAX) {
            self.requests = Requests::default();
            self.kept = 0;
        }
        self.kept += self.replies.forget((most - self.kept).min(KEPT_MAX));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_commands::GetKey;
    use guira_protocol::{Command, GetForm, Line, Replies, Unique, parse};

    #[derive(Debug)]
    enum NoPin {}

    impl ValuePin for NoPin {
        fn value_len(&self) -> usize {
            match *self {}
        }
        fn piece(&self, _from: usize) -> &[u8] {
            match *self {}
        }
    }

    #[test]
    fn a_spare_batch_keeps_no_more_than_it_may() {
        let mut batch = ForwardBatch::<NoPin>::new(0);
        batch.requests.bytes.reserve_exact(1000);
        batch.replies.buffer().put(&[b'x'; 5000]);
        assert_eq!(batch.clear(usize::MAX), 6000);
        assert_eq!(
            (batch.clear(5999), batch.kept),
            (1000, 1000),
            "the replies do not fit beside the requests"
        );
        assert_eq!(batch.clear(999), 0);
        batch.requests.bytes.reserve_exact(KEPT_MAX + 1);
        assert_eq!(batch.clear(usize::MAX), 0);
    }

    #[test]
    fn requests_are_taken_out_as_they_were_put_in() {
        let lines = ["mg a2V5 b v Oopaque k", "ms key 3 T0 MA", "md key q I", "me key", "ma key"];
        let commands: Vec<Command<'_>> = lines
            .iter()
            .map(|text| parse(Line { text: text.as_bytes(), length: text.len() + 2 }).unwrap())
            .collect();
        let mut items: Vec<Item<'_>> = commands
            .iter()
            .map(|command| match command {
                Command::Meta(meta) => Item::Meta(*meta, b"new\r\n"),
                Command::MetaDebug(key) => Item::MetaDebug(*key),
                other => panic!("{other:?} is not among them"),
            })
            .collect();
        let get = GetKey { key: b"another", form: GetForm::Plain(Unique::Shown) };
        items.insert(2, Item::KeyOfGet(get));
        let mut outbox = Outbox::<NoPin>::with_capacity(0);
        let mut requests = Requests::default();
        for (number, item) in items.iter().enumerate() {
            requests.push(item, KeyHash(number as u64), outbox.defer());
        }
        let rest = requests.split_off(3);
        let found: Vec<String> = requests
            .items()
            .chain(rest.items())
            .map(|(request, item)| format!("{} {item:?}", request.hash.0))
            .collect();
        let expected: Vec<String> =
            items.iter().enumerate().map(|(number, item)| format!("{number} {item:?}")).collect();
        assert_eq!(found, expected);
        assert_eq!((requests.list.len(), rest.begin(1)), (3, rest.list[0].end()));
    }
}
