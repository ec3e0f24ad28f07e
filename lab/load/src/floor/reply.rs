//! The floor server's replies: templates written once, and a queue of repetitions of them.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::request::binary::{DELETE, GET, GETKQ, HEADER_LEN, NOOP, RESPONSE, SET};

/// A template is repeated until it has about this many bytes, so that many replies are one slice.
const TEMPLATE_LEN: usize = 256 << 10;
const SLICES_MAX: usize = 64;

/// The shape of every value that the floor answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Length of the key in a `VALUE` line.
    pub key_len: usize,
    /// Length of the value.
    pub value_len: usize,
}

/// What can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    /// A value and the end of the reply.
    Hit,
    /// A value.
    Value,
    /// The end of a reply with values.
    End,
    Stored,
    Deleted,
    Error,
    /// A value, as a packet.
    HitPacket,
    /// A value with its key, as a packet.
    KeyedHitPacket,
    NoopPacket,
    SetPacket,
    DeletePacket,
    ErrorPacket,
}

const TEMPLATES: usize = 12;
/// "Unknown command", as a packet says it.
const UNKNOWN_COMMAND: u16 = 0x81;

/// A reply, repeated.
#[derive(Debug)]
struct Repeated {
    bytes: Vec<u8>,
    unit: usize,
}

impl Repeated {
    fn new(unit: &[u8]) -> Self {
        let times = (TEMPLATE_LEN / unit.len()).max(1);
        Self { bytes: unit.repeat(times), unit: unit.len() }
    }
}

/// The bytes of every template.
#[derive(Debug)]
pub(super) struct Templates {
    list: [Repeated; TEMPLATES],
}

impl Templates {
    pub(super) fn new(shape: Shape) -> Self {
        let mut value = b"VALUE ".to_vec();
        value.resize(value.len() + shape.key_len, b'k');
        value.extend_from_slice(format!(" 0 {}\r\n", shape.value_len).as_bytes());
        value.resize(value.len() + shape.value_len, b'v');
        value.extend_from_slice(b"\r\n");
        let hit = [value.as_slice(), b"END\r\n"].concat();
        let bare = |opcode| packet(opcode, 0, Shape { key_len: 0, value_len: 0 });
        let units: [&[u8]; TEMPLATES] = [
            &hit,
            &value,
            b"END\r\n",
            b"STORED\r\n",
            b"DELETED\r\n",
            b"ERROR\r\n",
            &packet(GET, 0, Shape { key_len: 0, ..shape }),
            &packet(GETKQ, 0, shape),
            &bare(NOOP),
            &bare(SET),
            &bare(DELETE),
            &packet(0, UNKNOWN_COMMAND, Shape { key_len: 0, value_len: 0 }),
        ];
        Self { list: units.map(Repeated::new) }
    }

    /// The bytes of one such reply.
    pub(super) fn one(&self, template: Template) -> &[u8] {
        let repeated = self.get(template);
        &repeated.bytes[..repeated.unit]
    }

    fn get(&self, template: Template) -> &Repeated {
        &self.list[template as usize]
    }
}

/// A reply of the binary protocol with opaque and cas unique 0, and flags if there is a value.
fn packet(opcode: u8, status: u16, shape: Shape) -> Vec<u8> {
    let extras_len = if shape.value_len > 0 { 4 } else { 0 };
    let body_len = extras_len + shape.key_len + shape.value_len;
    let mut bytes = vec![RESPONSE, opcode];
    bytes.extend_from_slice(&(shape.key_len as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras_len as u8, 0]);
    bytes.extend_from_slice(&status.to_be_bytes());
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.resize(HEADER_LEN + extras_len, 0);
    bytes.resize(bytes.len() + shape.key_len, b'k');
    bytes.resize(bytes.len() + shape.value_len, b'v');
    bytes
}

/// Repetitions of one template that are still to be sent.
#[derive(Debug, Clone, Copy)]
struct Run {
    template: Template,
    count: usize,
    /// Bytes of the first repetition that were sent.
    sent: usize,
}

/// What is still to be sent to one client.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: VecDeque<Run>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn push(&mut self, template: Template, count: usize) {
        match self.runs.back_mut() {
            Some(last) if last.template == template => last.count += count,
            _ if count > 0 => self.runs.push_back(Run { template, count, sent: 0 }),
            _ => {}
        }
    }

    /// Calls `write` with the first bytes of the queue.
    pub(super) fn with_slices<T>(&self, templates: &Templates, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut used = 0;
        for run in &self.runs {
            let repeated = templates.get(run.template);
            let mut left = run.count * repeated.unit - run.sent;
            let mut from = run.sent;
            while left > 0 && used < SLICES_MAX {
                let to = (from + left).min(repeated.bytes.len());
                slices[used] = IoSlice::new(&repeated.bytes[from..to]);
                used += 1;
                left -= to - from;
                from = 0;
            }
        }
        write(&slices[..used])
    }

    /// Takes `count` sent bytes off the front.
    pub(super) fn wrote(&mut self, templates: &Templates, mut count: usize) {
        while count > 0 {
            let Some(run) = self.runs.front_mut() else { return };
            let unit = templates.get(run.template).unit;
            let left = run.count * unit - run.sent;
            if count >= left {
                count -= left;
                self.runs.pop_front();
            } else {
                let sent = run.sent + count;
                run.count -= sent / unit;
                run.sent = sent % unit;
                return;
            }
        }
    }
}
