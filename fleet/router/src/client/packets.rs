//! The binary protocol: packets in, requests out. Servers are queried in the text protocol: by classic commands where these do, since gets of
//! different clients become one get, and by meta commands for what only they can say.

use super::{After, PartialBlock, Turn, of_verb};
use crate::failures::command_disabled;
use crate::packet_reply::Echo;
use crate::render::Form;
use crate::stats;
use guira_protocol::binary::{
    Binary, BinaryFault, HEADER_BYTES, ItemOperation, Packet, PacketStore, Quiet, REQUEST_MAGIC,
    ServerOperation, Shown, Status, reply_body, reply_stat_lines, reply_status, reply_text,
};
use guira_protocol::{Direction, ReplyBuffer, Verb};
use guira_routing::{Dialect, Op, Request};
use guira_serving::{CloseReason, Slice, Stopped};
use guira_upstream::VALUE_MAX;
use std::io::Write;

/// The flags of an mg: the value comes last.
const ALL: &[u8] = b"f c v";
const FLAGS: &[u8] = b"f c";

impl Turn<'_> {
    /// [`Turn::run`] for packets, out of the way of lines.
    #[inline(never)]
    pub(super) fn packets(&mut self, slice: &mut Slice, input: &[u8]) -> (usize, Stopped) {
        self.requests(slice, input, Self::packet)
    }

    fn packet(&mut self, input: &[u8]) -> After {
        if input.first() != Some(&REQUEST_MAGIC) {
            return After::Over(CloseReason::Error);
        }
        let Some(packet) = Packet::read(input) else {
            return After::Unfinished;
        };
        let kind = match packet.check() {
            Ok(kind) => kind,
            Err(BinaryFault::Swallow(status)) => return self.refuse(packet, status),
            Err(BinaryFault::Close(status)) => {
                reply_status(packet, status, 0, self.outbox);
                return After::Over(CloseReason::Error);
            }
        };
        if packet.value_len() > VALUE_MAX {
            return self.refuse(packet, Status::TooLarge);
        }
        let length = HEADER_BYTES + packet.body_len() as usize;
        let Some(body) = input.get(HEADER_BYTES..length) else {
            self.client.partial_block = PartialBlock::Yes;
            return After::Unfinished;
        };
        let (head, value) = body.split_at(packet.head_len());
        match packet.command(kind, head) {
            Binary::Item { key, operation } => self.about_item(packet, key, &operation, value),
            Binary::Server(operation) => return self.about_router(packet, &operation, length),
        }
        After::Taken(length)
    }

    /// Answers before the body has come, which is passed over.
    fn refuse(&mut self, packet: Packet, status: Status) -> After {
        reply_status(packet, status, 0, self.outbox);
        self.client.swallow = u64::from(packet.body_len());
        After::Taken(HEADER_BYTES)
    }

    fn about_router(&mut self, packet: Packet, operation: &ServerOperation<'_>, length: usize) -> After {
        match operation {
            ServerOperation::Noop => reply_status(packet, Status::Success, 0, self.outbox),
            ServerOperation::Version => reply_text(packet, &self.shared.about.version, self.outbox),
            ServerOperation::Stat(what) => {
                let mut lines = ReplyBuffer::default();
                stats::answer(what, self.shared, &mut lines);
                reply_stat_lines(packet, lines.as_slice(), self.outbox);
            }
            ServerOperation::Flush(delay) if self.passes_flushes_on() => {
                self.flush_all(*delay, Form::Packet(Echo { opcode: packet.opcode, opaque: packet.opaque }));
            }
            ServerOperation::Flush(_) => {
                reply_body(packet, Status::NotSupported, 0, command_disabled!().as_bytes(), self.outbox);
            }
            ServerOperation::Quit => {
                if packet.quiet() == Quiet::No {
                    reply_status(packet, Status::Success, 0, self.outbox);
                }
                return After::Over(CloseReason::Normal);
            }
        }
        After::Taken(length)
    }

    fn about_item(&mut self, packet: Packet, key: &[u8], operation: &ItemOperation, value: &[u8]) {
        // A key with bytes that would end a word or a line of a text protocol is sent as base64.
        let is_text = key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        let mut meta = Vec::new();
        let mut it = Request { value, ..Request::classic(Op::Gets, key) };
        match operation {
            ItemOperation::Get { touch: None, .. } => {
                if !is_text {
                    (it.op, it.dialect) = (Op::Get, Dialect::Meta);
                    meta.extend_from_slice(ALL);
                }
            }
            ItemOperation::Get { touch: Some(time), shown } => {
                it.exptime = time.0;
                if *shown == Shown::Nothing {
                    (it.op, it.dialect) = (Op::Touch, Dialect::Meta);
                    meta.extend_from_slice(FLAGS);
                } else if is_text {
                    it.op = Op::Gats;
                } else {
                    (it.op, it.dialect) = (Op::Gat, Dialect::Meta);
                    meta.extend_from_slice(ALL);
                }
            }
            ItemOperation::Store(store) => {
                (it.op, it.dialect, it.exptime) = (op_of(store, packet.cas), Dialect::Meta, store.exptime.0);
                put_store(store, packet.cas, &mut meta);
            }
            ItemOperation::Delete => {
                it.op = Op::Delete;
                if packet.cas != 0 || !is_text {
                    it.dialect = Dialect::Meta;
                    put_unique(packet.cas, &mut meta);
                }
            }
            ItemOperation::Arithmetic { direction, delta, initial } => {
                let (op, mode) = match direction {
                    Direction::Up => (Op::Incr, "MI"),
                    Direction::Down => (Op::Decr, "MD"),
                };
                (it.op, it.dialect, it.number) = (op, Dialect::Meta, *delta);
                put(&mut meta, format_args!("{mode} D{delta} c v"));
                if let Some((number, time)) = initial {
                    put(&mut meta, format_args!(" J{number} N{}", time.0));
                }
                put_unique(packet.cas, &mut meta);
            }
        }
        if it.dialect == Dialect::Meta && !is_text {
            meta.extend_from_slice(b" b");
        }
        let form = Form::Packet(Echo { opcode: packet.opcode, opaque: packet.opaque });
        self.one(&Request { meta: &meta, ..it }, form);
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A vector takes all.
    let _ = out.write_fmt(text);
}

fn is_join(store: &PacketStore) -> bool {
    matches!(store.verb, Verb::Append | Verb::Prepend)
}

fn op_of(store: &PacketStore, unique: u64) -> Op {
    if unique != 0 && !is_join(store) { Op::Cas } else { of_verb(store.verb) }
}

/// The flags of an ms. A unique is compared with by any store, and takes the place of the condition of an add or a replace.
fn put_store(store: &PacketStore, unique: u64, out: &mut Vec<u8>) {
    out.push(b'c');
    if !is_join(store) {
        put(out, format_args!(" F{}", store.flags));
    }
    let mode = match store.verb {
        Verb::Append => " MA",
        Verb::Prepend => " MP",
        Verb::Add if unique == 0 => " ME",
        Verb::Replace if unique == 0 => " MR",
        _ => "",
    };
    out.extend_from_slice(mode.as_bytes());
    put_unique(unique, out);
}

fn put_unique(unique: u64, out: &mut Vec<u8>) {
    if unique != 0 {
        put(out, format_args!(" C{unique}"));
    }
}
