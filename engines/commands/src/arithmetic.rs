//! incr and decr, and their common part with ma.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::sight::{Sight, Vacancy};
use guira_contract::{
    Amendment, Decision, Digits, Expiry, ItemState, ItemView, Key, Meta, NewItem, Provision, Session,
    StoreError, Value, counted_size,
};
use guira_protocol::{Arithmetic, Direction, Noreply, NumberReader, Replies, Verb, number_from};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The new number, and the item before.
    Now(u64, Meta),
    /// The item was created with the initial value.
    Created,
    NotFound,
    Exists,
    NotANumber,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) direction: Direction,
    pub(crate) delta: u64,
    pub(crate) cas: Option<u64>,
    pub(crate) cas_new: Option<u64>,
    pub(crate) expiry: Option<Expiry>,
    /// The value to create a missing item with, and its expiry.
    pub(crate) initial: Option<(u64, Expiry)>,
}

/// Bytes of a value that are read at once.
const PIECE: usize = 256;

/// memcached keeps longer items in several chunks (`slab_chunk_max`, by default), and takes none of them for a number.
const NUMBER_ITEM_MAX: usize = 512 << 10;

/// The number in the item under a key of this length.
fn number_in(key_len: usize, item: &dyn ItemView) -> Option<u64> {
    let (mut buffer, length) = ([0; PIECE], item.value_len());
    if length <= PIECE {
        item.copy_value(0, &mut buffer[..length]);
        return number_from(&buffer[..length]);
    }
    if counted_size(key_len, item.flags(), length) > NUMBER_ITEM_MAX {
        return None;
    }
    // Blanks and zeros may come before a number, however many.
    let mut reader = NumberReader::default();
    for from in (0..length).step_by(PIECE) {
        let piece = &mut buffer[..PIECE.min(length - from)];
        item.copy_value(from, piece);
        if !reader.take(piece) {
            break;
        }
    }
    reader.number()
}

impl Step {
    pub(crate) fn of(direction: Direction, delta: u64) -> Self {
        Step { direction, delta, cas: None, cas_new: None, expiry: None, initial: None }
    }

    /// Decides on the item, and on the reply. An item that has a cas unique gets `fresh` with its new value.
    fn decide(
        &self,
        key: Key<'_>,
        item: Option<&dyn ItemView>,
        vacancy: Vacancy,
        fresh: u64,
    ) -> (Decision<'static>, Counted) {
        let Some(item) = item else {
            let Some((initial, expiry)) = self.initial.filter(|_| vacancy == Vacancy::Free) else {
                return (Decision::Keep, Counted::NotFound);
            };
            let value = Value::Digits(Digits::of(initial));
            let new = NewItem { flags: 0, expiry, cas: self.cas_new, state: ItemState::NONE, value };
            return (Decision::Put(new), Counted::Created);
        };
        // As in memcached, an empty value is reported as no number even if the cas unique does not match.
        let empty = item.value_len() == 0;
        if !empty && self.cas.is_some_and(|wanted| wanted != 0 && item.cas() != Some(wanted)) {
            return (Decision::Keep, Counted::Exists);
        }
        let Some(number) = number_in(key.bytes.len(), item) else {
            return (Decision::Keep, Counted::NotANumber);
        };
        let number = self.direction.apply(number, self.delta);
        let meta = item.meta();
        let digits = Digits::of(number);
        let cas = self.cas_new.or(meta.cas.map(|_| fresh));
        let decision = if digits.as_bytes().len() <= meta.value_len {
            let overwrite = Some(digits);
            Decision::Amend(Amendment { cas, expiry: self.expiry, overwrite, ..Amendment::default() })
        } else {
            let expiry = self.expiry.unwrap_or(meta.expiry);
            let value = Value::Digits(digits);
            let state = ItemState(meta.state.0 & ItemState::BINARY_KEY.0);
            Decision::Put(NewItem { flags: meta.flags, expiry, cas, state, value })
        };
        (decision, Counted::Now(number, meta))
    }
}

impl<S: Session> Executor<S> {
    pub(crate) fn count_step(&mut self, key: Key<'_>, step: &Step) -> Result<Counted, StoreError> {
        self.saw_request(key);
        let fresh = self.session.next_cas();
        let mut outcome = Counted::NotFound;
        self.update(Sight::Plain, key, Default::default(), Provision::None, |item, vacancy| {
            let (decision, result) = step.decide(key, item, vacancy, fresh);
            outcome = result;
            decision
        })?;
        match (step.direction, outcome) {
            (Direction::Up, Counted::NotFound) => self.count(CommandCount::IncrMisses),
            (Direction::Down, Counted::NotFound) => self.count(CommandCount::DecrMisses),
            (Direction::Up, Counted::Now(..)) => {
                self.count(CommandCount::IncrHits);
                self.sample(CommandCount::IncrHits, key);
            }
            (Direction::Down, Counted::Now(..)) => {
                self.count(CommandCount::DecrHits);
                self.sample(CommandCount::DecrHits, key);
            }
            // memcached reports the event before the item has an expiry.
            (_, Counted::Created) => self.saw_other_store(key, Verb::Add, None, Expiry::Never),
            _ => {}
        }
        Ok(outcome)
    }

    pub fn arithmetic<R>(&mut self, key: Key<'_>, command: &Arithmetic<'_>, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let outcome = self.count_step(key, &Step::of(command.direction, command.delta));
        if command.noreply == Noreply::Yes {
            return;
        }
        let buffer = replies.buffer();
        match outcome {
            Ok(Counted::Now(number, _)) => {
                buffer.number(number);
                buffer.put(b"\r\n");
            }
            Ok(Counted::NotANumber) => buffer.line(NOT_A_NUMBER),
            Ok(_) => buffer.line("NOT_FOUND"),
            Err(_) => buffer.line("SERVER_ERROR out of memory"),
        }
    }
}

/// The reply if the value is not a number.
pub(crate) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
