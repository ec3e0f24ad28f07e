//! Encodes requests, and keeps each until its reply has arrived.

pub(crate) mod binary;

use std::collections::VecDeque;

use guira_protocol::client;
use guira_protocol::word::verb;
use guira_protocol::{GetForm, Unique, Verb};
use guira_workload::{Operation, ValuePool};

use crate::error::LoadError;
use crate::source::{Source, Subject};
use guira_workload::OnMiss;

pub use crate::protocol::{Command, Protocol};

/// A request whose reply has not arrived completely.
#[derive(Debug, Clone, Copy)]
pub struct Awaited {
    pub command: Command,
    /// Keys of a get that are still open.
    pub keys_left: u32,
    /// When it was to be sent; latency counts from here.
    pub intended_ns: u64,
    /// In the binary protocol: the opaque in the reply to the oldest open key, or else in the last
    /// reply.
    pub opaque: u32,
    /// In the binary protocol: the command of the last reply.
    pub last_opcode: u8,
}

/// A key of a get whose reply has not arrived.
#[derive(Debug, Clone, Copy)]
pub struct AwaitedKey {
    /// The source's description of the key.
    pub subject: Subject,
    /// The position of the key in [`Outbox::bytes`].
    at: usize,
    len: usize,
}

/// The requests of one connection: their bytes, and the requests and keys without a reply.
///
/// The bytes of a request stay until it is answered, since a reply's key is compared with them and
/// a fill copies the key from them.
#[derive(Debug, Default)]
pub struct Outbox {
    protocol: Protocol,
    /// The opaque of the next packet.
    next_opaque: u32,
    bytes: Vec<u8>,
    sent: usize,
    requests: VecDeque<Awaited>,
    keys: VecDeque<AwaitedKey>,
    fills: Vec<AwaitedKey>,
    fill_keys: Vec<u8>,
}

/// The bytes of answered requests that an outbox keeps before it removes them.
const ANSWERED_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemStyle {
    /// Client flags of every item.
    pub flags: u32,
    pub multiget_keys: u32,
}

impl Outbox {
    /// An empty outbox that encodes its requests in `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, ..Self::default() }
    }

    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes that the socket has not taken yet.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Records that the socket took `count` bytes.
    pub const fn took(&mut self, count: usize) {
        self.sent += count;
    }

    /// Requests that wait for their reply.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Whether missed keys are still to be set.
    #[must_use]
    pub const fn has_fills(&self) -> bool {
        !self.fills.is_empty()
    }

    pub fn front(&mut self) -> Option<&mut Awaited> {
        self.requests.front_mut()
    }

    pub fn close_front(&mut self) {
        self.requests.pop_front();
    }

    /// The oldest open key and its bytes.
    #[must_use]
    pub fn front_key(&self) -> Option<(AwaitedKey, &[u8])> {
        self.keys.front().map(|key| (*key, &self.bytes[key.at..key.at + key.len]))
    }

    /// Closes the oldest open key as found.
    pub fn key_found(&mut self) {
        self.keys.pop_front();
        self.count_key();
    }

    fn count_key(&mut self) {
        if let Some(front) = self.requests.front_mut() {
            front.keys_left -= 1;
            front.opaque = front.opaque.wrapping_add(1);
        }
    }

    /// Closes the oldest open key as missed; queues the set that is to follow.
    pub fn key_missed(&mut self) {
        self.count_key();
        let Some(key) = self.keys.pop_front() else { return };
        if key.subject.on_miss == OnMiss::Fill {
            let at = self.fill_keys.len();
            self.fill_keys.extend_from_slice(&self.bytes[key.at..key.at + key.len]);
            self.fills.push(AwaitedKey { at, ..key });
        }
    }

    /// Drops every open request: no reply is expected any more.
    pub(crate) fn abandon(&mut self) {
        self.requests.clear();
        self.keys.clear();
    }

    /// Appends a set for every missed key; returns their number.
    ///
    /// # Errors
    /// When a value is longer than the pool of values.
    pub fn push_fills(
        &mut self,
        values: &ValuePool,
        style: ItemStyle,
        now_ns: u64,
    ) -> Result<usize, LoadError> {
        if self.fills.is_empty() {
            return Ok(0);
        }
        self.tidy();
        let fills = std::mem::take(&mut self.fills);
        let keys = std::mem::take(&mut self.fill_keys);
        for fill in &fills {
            let at = self.begin_set();
            self.bytes.extend_from_slice(&keys[fill.at..fill.at + fill.len]);
            self.finish_set(at, fill.subject, values, style)?;
            self.await_reply(Command::Fill, 0, now_ns);
        }
        let count = fills.len();
        (self.fills, self.fill_keys) = (fills, keys);
        self.fills.clear();
        self.fill_keys.clear();
        Ok(count)
    }

    /// Appends the source's next request; false at the end of the source.
    ///
    /// # Errors
    /// When a value is longer than the pool of values.
    #[inline]
    pub fn push_next<S: Source>(
        &mut self,
        source: &mut S,
        values: &ValuePool,
        style: ItemStyle,
        intended_ns: u64,
    ) -> Result<bool, LoadError> {
        let Some(operation) = source.next_operation() else { return Ok(false) };
        self.tidy();
        let (command, keys_left) = match operation {
            Operation::Get | Operation::LoneGet => (Command::Get, 1),
            Operation::Multiget => (Command::Get, style.multiget_keys),
            Operation::Set => (Command::Set, 0),
            Operation::Delete | Operation::LoneDelete => (Command::Delete, 0),
        };
        match command {
            Command::Get => self.push_get(source, keys_left),
            Command::Delete => self.push_delete(source),
            Command::Set | Command::Fill => {
                let at = self.begin_set();
                let subject = source.append_key(&mut self.bytes);
                self.finish_set(at, subject, values, style)?;
            }
        }
        self.await_reply(command, keys_left, intended_ns);
        Ok(true)
    }

    fn await_reply(&mut self, command: Command, keys_left: u32, intended_ns: u64) {
        let (last_opcode, packets) = binary::replies(command, keys_left);
        let opaque = self.next_opaque;
        self.next_opaque = opaque.wrapping_add(packets);
        self.requests.push_back(Awaited { command, keys_left, intended_ns, opaque, last_opcode });
    }

    #[inline]
    fn push_get<S: Source>(&mut self, source: &mut S, keys: u32) {
        if self.protocol == Protocol::Binary {
            self.push_get_packets(source, keys);
            return;
        }
        client::begin_get(GetForm::Plain(Unique::Omitted), &mut self.bytes);
        for index in 0..keys {
            if index > 0 {
                self.bytes.push(b' ');
            }
            let at = self.bytes.len();
            let subject = source.append_key(&mut self.bytes);
            self.keys.push_back(AwaitedKey { subject, at, len: self.bytes.len() - at });
        }
        client::end_line(&mut self.bytes);
    }

    fn push_delete<S: Source>(&mut self, source: &mut S) {
        if self.protocol == Protocol::Binary {
            self.push_delete_packet(source);
            return;
        }
        self.bytes.extend_from_slice(verb::spaced::DELETE);
        source.append_key(&mut self.bytes);
        client::end_line(&mut self.bytes);
    }

    /// Appends the part of a set before its key; returns the start of the request.
    fn begin_set(&mut self) -> usize {
        let at = self.bytes.len();
        match self.protocol {
            Protocol::Text => client::begin_store(Verb::Set, &mut self.bytes),
            Protocol::Binary => self.bytes.resize(at + binary::BEFORE_SET_KEY, 0),
        }
        at
    }

    /// Appends the part behind the key of the set that starts at `at`.
    fn finish_set(
        &mut self,
        at: usize,
        subject: Subject,
        values: &ValuePool,
        style: ItemStyle,
    ) -> Result<(), LoadError> {
        let len = subject.value_len as usize;
        let value = values
            .get(subject.id, len)
            .ok_or_else(|| LoadError::ValueTooLong { len, max: values.len_max() })?;
        if self.protocol == Protocol::Binary {
            self.finish_set_packet(at, subject, value, style);
            return Ok(());
        }
        let item = client::Item { flags: style.flags.into(), exptime: subject.exptime.into(), value };
        client::end_store(Verb::Set, item, &mut self.bytes);
        Ok(())
    }

    /// Removes the bytes of answered requests: all at once when no request is open, else when they
    /// have grown.
    fn tidy(&mut self) {
        if self.requests.is_empty() && self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            return;
        }
        let needed = self.keys.front().map_or(self.sent, |key| key.at).min(self.sent);
        if needed < ANSWERED_MAX {
            return;
        }
        self.bytes.drain(..needed);
        self.sent -= needed;
        self.keys.iter_mut().for_each(|key| key.at -= needed);
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::{Operation, ValuePool};

    use super::{Command, ItemStyle, Outbox, Protocol};
    use crate::source::{Source, Subject};
    use guira_workload::OnMiss;

    /// A source with a fixed list of operations on the keys k0, k1, …
    struct Script {
        operations: Vec<Operation>,
        next_id: u64,
    }

    impl Source for Script {
        fn next_operation(&mut self) -> Option<Operation> {
            (!self.operations.is_empty()).then(|| self.operations.remove(0))
        }

        fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
            let id = self.next_id;
            self.next_id += 1;
            out.extend_from_slice(format!("k{id}").as_bytes());
            Subject { id, value_len: 3, exptime: 9, on_miss: OnMiss::Fill }
        }
    }

    const STYLE: ItemStyle = ItemStyle { flags: 7, multiget_keys: 2 };

    fn outbox(operations: Vec<Operation>) -> (Outbox, ValuePool) {
        spelled(Protocol::Text, operations)
    }

    fn spelled(protocol: Protocol, operations: Vec<Operation>) -> (Outbox, ValuePool) {
        let mut outbox = Outbox::new(protocol);
        let values = ValuePool::new(10);
        let mut script = Script { operations, next_id: 0 };
        while outbox.push_next(&mut script, &values, STYLE, 5).unwrap() {}
        (outbox, values)
    }

    #[test]
    fn requests_are_spelled_as_the_protocol_wants() {
        let (outbox, values) =
            outbox(vec![Operation::Get, Operation::Multiget, Operation::Set, Operation::Delete]);
        let mut expected = b"get k0\r\nget k1 k2\r\nset k3 7 9 3\r\n".to_vec();
        expected.extend_from_slice(values.get(3, 3).unwrap());
        expected.extend_from_slice(b"\r\ndelete k4\r\n");
        assert_eq!(outbox.unsent(), expected);
        assert_eq!(outbox.open_requests(), 4);
    }

    #[test]
    fn packets_are_spelled_as_the_protocol_wants() {
        let operations = vec![Operation::Get, Operation::Multiget, Operation::Set, Operation::Delete];
        let (outbox, values) = spelled(Protocol::Binary, operations);
        // Magic, opcode, key length; extras length, data type, vbucket; body length; opaque; cas.
        let header = |opcode: u8, key: u8, extras: u8, body: u8, opaque: u8| {
            let mut bytes = vec![0x80, opcode, 0, key, extras, 0, 0, 0, 0, 0, 0, body, 0, 0, 0, opaque];
            bytes.resize(24, 0);
            bytes
        };
        let packets: [(Vec<u8>, &[u8]); 6] = [
            (header(0x00, 2, 0, 2, 0), b"k0"),
            (header(0x0d, 2, 0, 2, 1), b"k1"),
            (header(0x0d, 2, 0, 2, 2), b"k2"),
            (header(0x0a, 0, 0, 0, 3), b""),
            (header(0x01, 2, 8, 13, 4), &[b"\0\0\0\x07\0\0\0\x09k3", values.get(3, 3).unwrap()].concat()),
            (header(0x04, 2, 0, 2, 5), b"k4"),
        ];
        let expected: Vec<u8> = packets.iter().flat_map(|(header, body)| [header, *body].concat()).collect();
        assert_eq!(outbox.unsent(), expected);
        assert_eq!(outbox.open_requests(), 4);
    }

    #[test]
    fn a_miss_of_a_packet_is_followed_by_a_set_of_the_same_key() {
        let (mut outbox, values) = spelled(Protocol::Binary, vec![Operation::Get]);
        outbox.took(outbox.unsent().len());
        outbox.key_missed();
        outbox.close_front();
        assert_eq!(outbox.push_fills(&values, STYLE, 8).unwrap(), 1);
        assert!(outbox.unsent().starts_with(b"\x80\x01\0\x02\x08"));
        assert_eq!(outbox.unsent()[32..34], *b"k0");
    }

    #[test]
    fn a_miss_is_followed_by_a_set_of_the_same_key() {
        let (mut outbox, values) = outbox(vec![Operation::Multiget]);
        outbox.took(outbox.unsent().len());
        outbox.key_found();
        outbox.key_missed();
        outbox.close_front();
        assert_eq!(outbox.push_fills(&values, STYLE, 8).unwrap(), 1);
        assert!(outbox.unsent().starts_with(b"set k1 7 9 3\r\n"));
        assert_eq!(outbox.front().unwrap().command, Command::Fill);
        assert!(!outbox.has_fills());
    }
}
