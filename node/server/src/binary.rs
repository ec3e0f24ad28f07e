//! A conversation in the binary protocol: packets in, packets out. Batches are made as in [`crate::dialogue`].

use crate::dialogue::{BATCH, Dialogue, Interpreter, Phase};
use crate::login::is_sasl;
use crate::outbox::Outbox;
use crate::watch::CloseReason;
use arrayvec::ArrayVec;
use guira_commands::Executor;
use guira_commands::binary::{reply_stat, reply_status, reply_text};
use guira_commands::{Data, Incoming};
use guira_contract::{Key, KeyHash, PendingValue, Session};
use guira_protocol::ReplyBuffer;
use guira_protocol::binary::{Binary, BinaryFault, HEADER_BYTES, Kind, Packet, Quiet, REQUEST_MAGIC, Status};

/// A packet of a batch.
#[derive(Debug)]
struct Entry<'a, G> {
    packet: Packet,
    command: Binary<'a>,
    hash: KeyHash,
    guess: G,
    value: &'a [u8],
    /// Where the next packet begins.
    end: usize,
}

/// What is found that does not go into a batch.
#[derive(Debug)]
enum Special<'a> {
    /// It has not arrived altogether.
    Unfinished,
    /// It is no packet.
    NoPacket,
    /// It is about logging in.
    Login,
    /// It is wrong.
    Fault(Packet, BinaryFault),
    /// A store whose value has not arrived altogether; its extras and key.
    Incomplete(Packet, Kind, &'a [u8]),
}

/// A value that arrives in pieces.
#[derive(Debug)]
pub(crate) struct PacketValue<D> {
    packet: Packet,
    kind: Kind,
    /// Extras and key.
    head: Box<[u8]>,
    pending: D,
}

/// The key of a command, if it has one.
fn key_of<'a>(command: &Binary<'a>) -> Option<&'a [u8]> {
    match command {
        Binary::Get { key, .. } | Binary::Store { key, .. } | Binary::Arithmetic { key, .. } => Some(key),
        Binary::Delete(key) => Some(key),
        _ => None,
    }
}

impl<S: Session> Interpreter<S> {
    /// Parses and executes a batch of packets. Returns how many bytes were taken: none if more have to come.
    pub(crate) fn packets(
        &mut self,
        dialogue: &mut Dialogue<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let mut batch = ArrayVec::<Entry<'_, S::Guess>, BATCH>::new();
        let mut at = 0;
        let mut special = Special::Unfinished;
        while !batch.is_full() {
            match self.read_packet(input, at) {
                Ok(entry) => {
                    at = entry.end;
                    batch.push(entry);
                }
                Err(found) => {
                    special = found;
                    break;
                }
            }
        }
        if batch.is_empty() {
            dialogue.slice.executed(1);
            return match special {
                Special::Login => self.packet_login(dialogue, input, outbox),
                other => self.special_packet(dialogue, other, outbox),
            };
        }
        for entry in &mut batch {
            if key_of(&entry.command).is_some() {
                entry.guess = self.executor.prefetch_item(entry.hash);
            }
        }
        for _ in 0..Executor::<S>::PREFETCH_STEPS {
            batch.iter_mut().for_each(|entry| self.executor.prefetch_next(&mut entry.guess));
        }
        dialogue.slice.executed(batch.len());
        for entry in &batch {
            self.execute_packet(dialogue, entry, outbox);
            if matches!(dialogue.phase, Phase::Over) || outbox.weight() >= self.full {
                return entry.end;
            }
        }
        at
    }

    fn read_packet<'a>(&self, input: &'a [u8], at: usize) -> Result<Entry<'a, S::Guess>, Special<'a>> {
        let input = input.get(at..).unwrap_or_default();
        if input.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
            return Err(Special::NoPacket);
        }
        let packet = Packet::read(input).ok_or(Special::Unfinished)?;
        let kind = packet.check().map_err(|fault| {
            if is_sasl(packet) && self.shared.users.is_some() {
                Special::Login
            } else {
                Special::Fault(packet, fault)
            }
        })?;
        let body = &input[HEADER_BYTES..];
        let head = body.get(..packet.head_len()).ok_or(Special::Unfinished)?;
        let command = packet.command(kind, head);
        let length = packet.value_len() as usize;
        let value = body[head.len()..].get(..length).ok_or(Special::Incomplete(packet, kind, head))?;
        let hash = key_of(&command).map_or(KeyHash::default(), |key| self.executor.prefetch(key));
        let end = at + HEADER_BYTES + head.len() + length;
        Ok(Entry { packet, command, hash, guess: S::Guess::default(), value, end })
    }

    fn special_packet(
        &mut self,
        dialogue: &mut Dialogue<S>,
        special: Special<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        match special {
            Special::Unfinished | Special::Login => 0,
            Special::NoPacket => {
                dialogue.phase = Phase::Over;
                0
            }
            Special::Fault(packet, fault) => {
                let (status, phase) = match fault {
                    BinaryFault::Swallow(status) if packet.body_len() == 0 => (status, Phase::Command),
                    BinaryFault::Swallow(status) => (status, Phase::Swallow(u64::from(packet.body_len()))),
                    BinaryFault::Close(status) => (status, Phase::Over),
                };
                reply_status(packet, status, 0, outbox);
                dialogue.phase = phase;
                HEADER_BYTES
            }
            Special::Incomplete(packet, kind, head) => {
                let command = packet.command(kind, head);
                match self.executor.binary_receive(packet, &command, outbox) {
                    Incoming::Whole => 0,
                    Incoming::Pending(pending) => {
                        let value = PacketValue { packet, kind, head: head.into(), pending };
                        dialogue.phase = Phase::PacketValue(Box::new(value));
                        HEADER_BYTES + head.len()
                    }
                    Incoming::Refused => {
                        // It is not empty: some of it has not arrived.
                        dialogue.phase = Phase::Swallow(u64::from(packet.value_len()));
                        HEADER_BYTES + head.len()
                    }
                }
            }
        }
    }

    /// A piece of a long value.
    pub(crate) fn packet_value(
        &mut self,
        dialogue: &mut Dialogue<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Phase::PacketValue(value) = &mut dialogue.phase else {
            return 0;
        };
        let missing = value.pending.missing();
        let part = input.len().min(missing);
        if self.executor.extend(&mut value.pending, &input[..part]).is_err() {
            let rest = match missing - part {
                0 => Phase::Command,
                left => Phase::Swallow(left as u64),
            };
            if let Phase::PacketValue(value) = std::mem::replace(&mut dialogue.phase, rest) {
                let command = value.packet.command(value.kind, &value.head);
                self.executor.binary_give_up(value.packet, &command, outbox);
            }
            return part;
        }
        if value.pending.missing() == 0
            && let Phase::PacketValue(value) = std::mem::take(&mut dialogue.phase)
        {
            let PacketValue { packet, kind, head, pending } = *value;
            let command = packet.command(kind, &head);
            if let Some(bytes) = key_of(&command) {
                let key = Key { bytes, hash: self.executor.prefetch(bytes) };
                self.executor.binary_store(
                    packet,
                    &command,
                    key,
                    S::Guess::default(),
                    Data::Pending(pending),
                    outbox,
                );
            }
        }
        part
    }

    fn execute_packet(
        &mut self,
        dialogue: &mut Dialogue<S>,
        entry: &Entry<'_, S::Guess>,
        outbox: &mut Outbox<S::Pin>,
    ) {
        let (packet, command) = (entry.packet, &entry.command);
        let Some(bytes) = key_of(command) else {
            return self.keyless_packet(dialogue, packet, command, outbox);
        };
        let key = Key { bytes, hash: entry.hash };
        let Binary::Store { .. } = command else {
            return self.executor.binary(packet, command, key, entry.guess, outbox);
        };
        self.executor.binary_store(packet, command, key, entry.guess, Data::Bytes(entry.value), outbox);
    }

    fn keyless_packet(
        &mut self,
        dialogue: &mut Dialogue<S>,
        packet: Packet,
        command: &Binary<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) {
        match command {
            Binary::Flush(delay) => {
                let at = self.executor.flush_time(*delay);
                if !self.shared.permissions.flush_all {
                    return reply_status(packet, Status::AuthError, 0, outbox);
                }
                if let Some(at) = at {
                    self.admin.flush(self.executor.now(), at);
                }
            }
            Binary::Version => return reply_text(packet, crate::VERSION, outbox),
            Binary::Stat(about) => return self.stat_packets(packet, about, outbox),
            Binary::Quit => {
                dialogue.phase = Phase::Over;
                dialogue.ends = CloseReason::Normal;
            }
            _ => {}
        }
        if packet.quiet() == Quiet::No {
            reply_status(packet, Status::Success, 0, outbox);
        }
    }

    /// Answers stat with the lines of the text protocol, each in a packet of its own.
    fn stat_packets(&mut self, packet: Packet, about: &[u8], outbox: &mut Outbox<S::Pin>) {
        let mut text = ReplyBuffer::default();
        if self.admin.stats(self.executor.now(), about, &mut text).is_some() {
            // The text protocol has what takes long.
            return reply_status(packet, Status::KeyNotFound, 0, outbox);
        }
        let told = text.as_slice();
        if about.starts_with(b"detail dump") && (told.starts_with(b"PREFIX ") || told == b"END\r\n") {
            // The one answer that comes whole.
            reply_stat(packet, b"detailed", told, outbox);
            return reply_stat(packet, b"", b"", outbox);
        }
        for line in told.split(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\r").unwrap_or(line) {
                b"" => {}
                b"END" | b"RESET" | b"OK" => reply_stat(packet, b"", b"", outbox),
                line => match line.strip_prefix(b"STAT ") {
                    Some(pair) => {
                        let blank = pair.iter().position(|byte| *byte == b' ').unwrap_or(pair.len());
                        let value = pair.get(blank + 1..).unwrap_or_default();
                        reply_stat(packet, &pair[..blank.min(KEY_MAX_TOLD)], value, outbox);
                    }
                    None => reply_status(packet, Status::KeyNotFound, 0, outbox),
                },
            }
        }
    }
}

/// A name's length goes into a byte.
const KEY_MAX_TOLD: usize = u8::MAX as usize;
