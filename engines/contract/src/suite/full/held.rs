//! What is held while other things are done: long values that are being sent, and others that are still arriving.

use super::changing::{Done, new_item};
use super::model::Modelled;
use super::worker::{PinOf, Worker, name};
use crate::suite::sink::pin_of;
use crate::{Decision, Recency, Value};
use crate::{Engine, ItemSpec, PendingValue, Provision, Session, ValuePin};

/// Values that are pinned, and that arrive, at the same time.
const HELD_MAX: usize = 4;

/// A pinned value, and what it was when it was pinned.
#[derive(Debug)]
pub(super) struct Pinned<P> {
    pub(super) key: u32,
    pub(super) pin: P,
    pub(super) value: Vec<u8>,
    /// The step at which it is dropped.
    pub(super) until: usize,
}

impl<P: ValuePin> Pinned<P> {
    /// Where the value is no longer what it was.
    pub(super) fn changed_at(&self) -> Option<usize> {
        if self.pin.value_len() != self.value.len() {
            return Some(0);
        }
        let mut from = 0;
        while from < self.value.len() {
            let piece = self.pin.piece(from);
            if piece.is_empty() || !self.value[from..].starts_with(piece) {
                return Some(from);
            }
            from += piece.len();
        }
        None
    }
}

/// An item that is still arriving.
#[derive(Debug)]
pub(super) struct Arriving<D> {
    pub(super) key: u32,
    pub(super) pending: D,
    pub(super) item: Modelled,
    /// Bytes of its value that have come.
    pub(super) come: usize,
}

impl<E: Engine> Worker<'_, E> {
    /// Begins to receive a long value.
    pub(super) fn announce(&mut self, key: u32) {
        let mut item = self.some_item();
        let least = self.session().inline_max() + 1;
        if item.value.len() < least {
            item.value.resize(least + self.random.below(4_000) as usize, b'#');
        }
        let spec = ItemSpec::of(&new_item(&item, Value::Pending), item.value.len());
        if let Some(pending) = self.begin_value(key, spec) {
            self.arriving.push(Arriving { key, pending, item, come: 0 });
        }
        if self.arriving.len() > HELD_MAX {
            // Whoever sent it has gone away.
            self.arriving.remove(0);
        }
    }

    /// Receives a piece of a long value; if it is the last, stores it.
    pub(super) fn receive(&mut self) {
        if self.arriving.is_empty() {
            return;
        }
        let index = self.random.below(self.arriving.len() as u64) as usize;
        let piece = 1 + self.random.below(20_000) as usize;
        let arriving = &mut self.arriving[index];
        let end = arriving.item.value.len().min(arriving.come + piece);
        let session = &mut self.sessions[self.active];
        let result = session.extend(&mut arriving.pending, &arriving.item.value[arriving.come..end]);
        arriving.come = end;
        if result.is_err() {
            self.model.tally.refused += 1;
            self.arriving.remove(index);
            return;
        }
        if arriving.pending.missing() > 0 {
            return;
        }
        let Arriving { key, pending, item, .. } = self.arriving.remove(index);
        let new = new_item(&item, Value::Pending);
        // A time that was to come when it was announced may have passed.
        let expired = item.expiry.passed(self.now);
        if let Done::Yes { found } = self.update(key, Provision::Pending(pending), |_| Decision::Put(new)) {
            self.put_was_done(key, item, found);
            if expired {
                self.model.remove(key);
            }
        }
        self.check(key);
    }

    /// Pins a value, if it is long.
    pub(super) fn pin(&mut self, key: u32) {
        let (name, now) = (name(key), self.now);
        let Some(pin) = pin_of(self.session(), &name, Recency::Leave, now) else { return };
        let Some(item) = self.model.live(key, now) else { self.fail(key, "it came back, and is pinned") };
        let pinned = Pinned {
            key,
            pin,
            value: item.value.clone(),
            until: self.step + self.random.below(300) as usize,
        };
        self.check_pin(&pinned);
        self.pins.push(pinned);
        if self.pins.len() > HELD_MAX {
            let pinned = self.pins.remove(0);
            self.check_pin(&pinned);
        }
    }

    fn check_pin(&self, pinned: &Pinned<PinOf<E>>) {
        if let Some(at) = pinned.changed_at() {
            let length = pinned.value.len();
            self.fail(pinned.key, &format!("a pinned value of {length} bytes has changed at {at}"));
        }
    }

    /// Looks at what is held, and drops the pins whose time has come.
    pub(super) fn look_at_held(&mut self) {
        self.pins.iter().for_each(|pinned| self.check_pin(pinned));
        let step = self.step;
        self.pins.retain(|pinned| pinned.until > step);
        self.world.check(&self.plan, &self.engine.stats());
    }

    /// Lets everything go that is held, and keeps no memory to itself.
    pub(super) fn settle(&mut self) {
        let pins = std::mem::take(&mut self.pins);
        pins.iter().for_each(|pinned| self.check_pin(pinned));
        self.arriving.clear();
        self.sessions.iter_mut().for_each(Session::release_caches);
    }
}
