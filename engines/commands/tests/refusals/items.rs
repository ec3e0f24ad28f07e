//! Items that exist before a command.

use super::asking::{Client, Delivery};
use guira_contract::suite::Copied;
use guira_contract::{Amendment, Decision, Expiry, ItemState, Session};
use guira_sync::clock::Seconds;

/// The key of all commands, and its base64 form.
pub(crate) const KEY: &str = "k";
pub(crate) const KEY_IN_BASE64: &str = "aw==";

/// The cas unique of items that have one from the start.
pub(crate) const UNIQUE: u64 = 77;

/// A length of values that are pinned instead of copied, and that arrive in pieces.
pub(crate) const LONG: usize = 20_000;

/// A step of preparing an item.
enum Step {
    /// Stores a value, with these flags of ms.
    Store(Contents, &'static str),
    Ask(&'static str),
    Lease,
    /// Deletes the item and keeps its value as a stale one.
    KeepStale,
    /// Deletes the key and holds it off.
    HoldOff,
    /// Advances the time by seconds.
    Wait(u32),
}

#[derive(Clone, Copy)]
enum Contents {
    Empty,
    Short,
    Long,
    Number(&'static str),
    LongNumber,
}

impl Contents {
    fn bytes(self) -> Vec<u8> {
        match self {
            Contents::Empty => Vec::new(),
            Contents::Short => b"value".to_vec(),
            Contents::Long => {
                let letters = b"abcdefghijklmnopqrstuvw";
                let mut value = letters.repeat(LONG.div_ceil(letters.len()));
                value.truncate(LONG);
                value
            }
            Contents::Number(digits) => digits.into(),
            Contents::LongNumber => [b"41".as_slice(), &[b' '; LONG - 2]].concat(),
        }
    }
}

use Contents::{Empty, Long, LongNumber, Number, Short};
use Step::{Ask, HoldOff, KeepStale, Lease, Store, Wait};

const STALE: Step = Ask("md k I\r\n");
const STALE_WITH_UNIQUE: Step = Ask("md k I E77\r\n");

pub(crate) struct Before {
    pub(crate) name: &'static str,
    steps: &'static [Step],
}

pub(crate) const ITEMS: &[Before] = &[
    Before { name: "no item", steps: &[] },
    Before { name: "an item", steps: &[Store(Short, "F7")] },
    Before { name: "an item with a cas unique", steps: &[Store(Short, "F7 E77")] },
    Before { name: "an item that expires", steps: &[Store(Short, "F7 T1000")] },
    Before { name: "an item that expires, with a cas unique", steps: &[Store(Short, "T1000 E77")] },
    Before { name: "an expired item", steps: &[Store(Short, "F7 T10"), Wait(20)] },
    Before { name: "a stale item", steps: &[Store(Short, "F7"), STALE] },
    Before { name: "a stale item that expires", steps: &[Store(Short, "T1000"), STALE] },
    Before { name: "a stale item with a cas unique", steps: &[Store(Short, "E76"), STALE_WITH_UNIQUE] },
    Before {
        name: "a stale item that another client recaches",
        steps: &[Store(Short, ""), STALE, Ask("mg k\r\n")],
    },
    Before {
        name: "an item that another client recaches",
        steps: &[Store(Short, "T50"), Ask("mg k R100\r\n")],
    },
    Before { name: "a long item", steps: &[Store(Long, "F7")] },
    Before { name: "a long item that expires, with a cas unique", steps: &[Store(Long, "T1000 E77")] },
    Before { name: "a long item with a cas unique", steps: &[Store(Long, "E77")] },
    Before { name: "a long stale item", steps: &[Store(Long, "F7"), STALE] },
    Before { name: "a number", steps: &[Store(Number("99"), "F7")] },
    Before { name: "a number with a cas unique", steps: &[Store(Number("9"), "F7 E77 T1000")] },
    Before { name: "a number with much behind it", steps: &[Store(LongNumber, "F7")] },
    Before { name: "an empty item", steps: &[Store(Empty, "F7")] },
    Before { name: "a key that another client fills", steps: &[Lease] },
    Before { name: "a key whose lease is over", steps: &[Lease, Wait(10)] },
    Before { name: "a stale item that a lease holder fills", steps: &[Store(Short, "F7"), STALE, Lease] },
    Before { name: "a deleted value", steps: &[Store(Short, "F7 T1000"), KeepStale] },
    Before {
        name: "a deleted value that another client fills",
        steps: &[Store(Short, ""), KeepStale, Lease],
    },
    Before { name: "a long deleted value", steps: &[Store(Long, "F7"), KeepStale] },
    Before { name: "a tombstone", steps: &[HoldOff] },
    Before { name: "an empty stale item", steps: &[Store(Empty, ""), STALE] },
];

impl Before {
    /// Prepares exactly this item under the key.
    pub(crate) fn prepare<S: Session>(&self, client: &mut Client<S>) {
        client.decide(|| Decision::Remove);
        for step in self.steps {
            match step {
                Store(contents, flags) => {
                    let value = contents.bytes();
                    let line = format!("ms {KEY} {} {flags}\r\n", value.len());
                    let request = [line.as_bytes(), &value, b"\r\n"].concat();
                    assert_eq!(client.ask(&request, Delivery::Whole), b"HD\r\n", "{}", self.name);
                }
                Ask(line) => {
                    let reply = client.ask(line.as_bytes(), Delivery::Whole);
                    assert!(reply.starts_with(b"HD"), "{}", self.name);
                }
                Lease => {
                    let reply = client.ask(b"lease-get k\r\n", Delivery::Whole);
                    assert!(reply.starts_with(b"LVALUE"), "{}", self.name);
                }
                KeepStale => client.decide(|| {
                    let set = ItemState::HIDDEN.with(ItemState::STALE);
                    Decision::Amend(Amendment { cas: Some(UNIQUE), set, ..Amendment::default() })
                }),
                HoldOff => assert_eq!(client.ask(b"md k H100\r\n", Delivery::Whole), b"NF\r\n"),
                Wait(seconds) => client.wait(*seconds),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    /// Seconds left.
    pub(crate) left: Option<u32>,
    pub(crate) cas: Option<u64>,
    pub(crate) state: ItemState,
}

impl Seen {
    pub(crate) fn of(item: Copied, now: Seconds) -> Self {
        let left = match item.meta.expiry {
            Expiry::Never => None,
            Expiry::At(at) => Some(at.0 - now.0),
        };
        let Copied { meta, value } = item;
        // The read sets the recency, which does not matter.
        let state = meta.state.without(ItemState::FETCHED);
        Seen { value, flags: meta.flags, left, cas: meta.cas, state }
    }

    pub(crate) fn describe(seen: Option<&Self>) -> String {
        let Some(seen) = seen else { return "nothing".to_owned() };
        let Seen { value, flags, left, cas, state } = seen;
        let beginning = String::from_utf8_lossy(&value[..value.len().min(12)]);
        let length = value.len();
        format!(
            "{beginning:?} of {length} bytes, flags {flags}, {left:?} s left, cas {cas:?}, state {}",
            state.0
        )
    }
}
