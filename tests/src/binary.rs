//! Packets of the binary protocol, as a client writes and reads them.

use crate::Client;

/// Bytes of a header.
const HEADER: usize = 24;

#[derive(Clone, Debug, Default)]
pub struct Request {
    opcode: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    opaque: u32,
    cas: u64,
    body_len: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub opcode: u8,
    pub status: u16,
    pub opaque: u32,
    pub cas: u64,
    /// Extras,
    pub extras: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Request {
    /// A command without anything.
    pub fn new(opcode: u8) -> Self {
        Request { opcode, ..Request::default() }
    }

    #[must_use]
    pub fn key(self, key: impl AsRef<[u8]>) -> Self {
        Request { key: key.as_ref().to_vec(), ..self }
    }

    #[must_use]
    pub fn value(self, value: impl AsRef<[u8]>) -> Self {
        Request { value: value.as_ref().to_vec(), ..self }
    }

    /// With one more number of four bytes in its extras.
    #[must_use]
    pub fn word(mut self, word: u32) -> Self {
        self.extras.extend(word.to_be_bytes());
        self
    }

    /// With one more number of eight bytes in its extras.
    #[must_use]
    pub fn long(mut self, long: u64) -> Self {
        self.extras.extend(long.to_be_bytes());
        self
    }

    /// With something that is to come back.
    #[must_use]
    pub fn opaque(self, opaque: u32) -> Self {
        Request { opaque, ..self }
    }

    /// With a cas unique to compare with.
    #[must_use]
    pub fn cas(self, cas: u64) -> Self {
        Request { cas, ..self }
    }

    /// With a body that is said to be this long.
    #[must_use]
    pub fn pretending(self, body_len: u32) -> Self {
        Request { body_len: Some(body_len), ..self }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend((self.key.len() as u16).to_be_bytes());
        bytes.extend([self.extras.len() as u8, 0, 0, 0]);
        bytes.extend(self.body_len.unwrap_or(body as u32).to_be_bytes());
        bytes.extend(self.opaque.to_be_bytes());
        bytes.extend(self.cas.to_be_bytes());
        for part in [&self.extras, &self.key, &self.value] {
            bytes.extend(part);
        }
        bytes
    }
}

/// set, with flags and no end.
pub fn set(key: &str, flags: u32, value: impl AsRef<[u8]>) -> Request {
    Request::new(0x01).word(flags).word(0).key(key).value(value)
}

pub fn get(key: &str) -> Request {
    Request::new(0x00).key(key)
}

pub fn noop() -> Request {
    Request::new(0x0a).opaque(0x6e6f_6f70)
}

/// The status and the text of a failure: there is no item.
pub const NOT_FOUND: (u16, &str) = (1, "Not found");
/// The item has another cas unique, or is there already.
pub const EXISTS: (u16, &str) = (2, "Data exists for key.");
/// A store's condition on the item is not met.
pub const NOT_STORED: (u16, &str) = (5, "Not stored.");
/// The value to be counted is no number.
pub const NO_NUMBER: (u16, &str) = (6, "Non-numeric server-side value for incr or decr");
/// The expiry that keeps an increment or decrement from creating a number.
pub const NEVER_CREATE: u32 = u32::MAX;

/// An increment or decrement of a number that is created with `initial` for `time` seconds.
pub fn step(opcode: u8, key: &str, delta: u64, initial: u64, time: u32) -> Request {
    Request::new(opcode).long(delta).long(initial).word(time).key(key)
}

/// Quiet commands tell the unexpected only, and in order. The server is empty.
#[track_caller]
pub fn expect_quiet_commands(client: &mut Client) {
    let quiet_set = |key: &str| Request::new(0x11).word(0).word(0).key(key).value("5").opaque(1);
    let numbers = |opcode, key: &str| step(opcode, key, 1, 1, NEVER_CREATE);
    let replies = client.ask_quietly(&[
        quiet_set("a"),
        Request::new(0x09).key("none"),
        Request::new(0x0d).key("none"),
        Request::new(0x1e).word(0).key("none"),
        Request::new(0x24).word(0).key("none"),
        Request::new(0x19).key("a").value("5"),
        Request::new(0x1a).key("a").value("5"),
        numbers(0x15, "a"),
        numbers(0x16, "a"),
        Request::new(0x09).key("a").opaque(2),
        Request::new(0x0d).key("a").opaque(3),
        Request::new(0x14).key("a"),
    ]);
    let replies: Vec<_> = replies.iter().map(|response| (response.opaque, response.outcome())).collect();
    assert_eq!(replies, [(2, (0, "555")), (3, (0, "555"))]);
    let replies = client.ask_quietly(&[
        Request::new(0x13).word(0).word(0).key("none").value("x"),
        Request::new(0x19).key("none").value("x"),
        Request::new(0x14).key("none"),
        numbers(0x15, "none"),
        Request::new(0x11).word(0).word(0).key("none").value("x").cas(9),
        set("x", 0, "x"),
        Request::new(0x12).word(0).word(0).key("x").value("x"),
        numbers(0x15, "x"),
    ]);
    let replies: Vec<_> = replies.iter().map(Response::outcome).collect();
    assert_eq!(replies, [NOT_FOUND, NOT_STORED, NOT_FOUND, NOT_FOUND, NOT_FOUND, (0, ""), EXISTS, NO_NUMBER]);
}

impl Client {
    /// Sends a request and returns its response.
    ///
    /// # Panics
    /// If none comes, or one to something else.
    pub fn ask_binary(&mut self, request: &Request) -> Response {
        self.send(request.bytes());
        let response = self.hear_binary();
        assert_eq!((response.opcode, response.opaque), (request.opcode, request.opaque));
        response
    }

    /// Sends requests and a no-op, and returns all that is answered before the no-op.
    ///
    /// # Panics
    /// If the no-op is not answered.
    pub fn ask_quietly(&mut self, requests: &[Request]) -> Vec<Response> {
        let mut bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
        bytes.extend(noop().bytes());
        self.send(bytes);
        let mut responses = Vec::new();
        loop {
            let response = self.hear_binary();
            if response.opcode == 0x0a && response.opaque == noop().opaque {
                return responses;
            }
            responses.push(response);
        }
    }

    /// The next response.
    ///
    /// # Panics
    /// If none comes, or something that is none.
    pub fn hear_binary(&mut self) -> Response {
        self.speak_binary();
        let header = self.take(HEADER);
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        assert_eq!((header[0], header[5]), (0x81, 0), "a response: {header:?}");
        let body = self.take(word(8) as usize);
        let (extras, rest) = body.split_at(usize::from(header[4]));
        let (key, value) = rest.split_at(usize::from(header[2]) << 8 | usize::from(header[3]));
        Response {
            opcode: header[1],
            status: u16::from_be_bytes([header[6], header[7]]),
            opaque: word(12),
            cas: u64::from(word(16)) << 32 | u64::from(word(20)),
            extras: extras.to_vec(),
            key: key.to_vec(),
            value: value.to_vec(),
        }
    }
}

impl Response {
    /// Its status and the text in its value.
    ///
    /// # Panics
    /// If the value is no text.
    pub fn outcome(&self) -> (u16, &str) {
        (self.status, std::str::from_utf8(&self.value).expect("a text"))
    }
}
