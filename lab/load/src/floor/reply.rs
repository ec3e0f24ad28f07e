//! The floor server's replies: templates written once, and repetitions of them.

use std::sync::Arc;

use guira_memory::ValuePin;
use guira_protocol::Replies;
use guira_protocol::binary::{Packet, Response, Status, opcode};
use guira_serving::Outbox;

/// A template is repeated until it has about this many bytes, so that many replies are one slice.
const TEMPLATE_LEN: usize = 256 << 10;
/// Replies that are no longer are copied: that costs less than a slice of their own.
const COPIED_MAX: usize = 4 << 10;

/// The shape of every value that the floor answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Length of the key in a `VALUE` line.
    pub key_len: usize,
    pub value_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    /// A value and the end of the reply.
    Hit,
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
        let bare = |command| packet(command, Status::Success, Shape { key_len: 0, value_len: 0 });
        let units: [&[u8]; TEMPLATES] = [
            &hit,
            &value,
            b"END\r\n",
            b"STORED\r\n",
            b"DELETED\r\n",
            b"ERROR\r\n",
            &packet(opcode::GET, Status::Success, Shape { key_len: 0, ..shape }),
            &packet(opcode::GETKQ, Status::Success, shape),
            &bare(opcode::NOOP),
            &bare(opcode::SET),
            &bare(opcode::DELETE),
            &packet(0, Status::UnknownCommand, Shape { key_len: 0, value_len: 0 }),
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
fn packet(command: u8, status: Status, shape: Shape) -> Vec<u8> {
    let extras_len = if shape.value_len > 0 { 4 } else { 0 };
    let plain = Response::plain(Packet::echo(command, [0; 4]), status);
    let (key_len, value_len) = (shape.key_len as u8, shape.value_len as u32);
    let mut bytes = Response { extras_len, key_len, value_len, ..plain }.header().to_vec();
    bytes.resize(bytes.len() + usize::from(extras_len), 0);
    bytes.resize(bytes.len() + shape.key_len, b'k');
    bytes.resize(bytes.len() + shape.value_len, b'v');
    bytes
}

/// Replies to one piece of input: repetitions of templates.
#[derive(Debug, Default)]
pub(super) struct Runs {
    list: Vec<(Template, usize)>,
}

impl Runs {
    pub(super) fn push(&mut self, template: Template, count: usize) {
        match self.list.last_mut() {
            Some((last, repeated)) if *last == template => *repeated += count,
            _ if count > 0 => self.list.push((template, count)),
            _ => {}
        }
    }

    /// Takes all of them, as replies that are sent from where they lie or, if they are short, copied.
    pub(super) fn reply(&mut self, templates: &Arc<Templates>, outbox: &mut Outbox<Repetitions>) {
        for (template, count) in self.list.drain(..) {
            let repeated = templates.get(template);
            let length = count * repeated.unit;
            if length <= COPIED_MAX.min(repeated.bytes.len()) {
                outbox.buffer().put(&repeated.bytes[..length]);
            } else {
                outbox.pin(Repetitions { templates: Arc::clone(templates), template, length });
            }
        }
    }
}

/// A template, repeated.
#[derive(Debug)]
pub(super) struct Repetitions {
    templates: Arc<Templates>,
    template: Template,
    length: usize,
}

impl ValuePin for Repetitions {
    fn value_len(&self) -> usize {
        self.length
    }

    fn piece(&self, from: usize) -> &[u8] {
        let repeated = self.templates.get(self.template);
        let begin = from % repeated.unit;
        &repeated.bytes[begin..repeated.bytes.len().min(begin + self.length - from)]
    }
}
