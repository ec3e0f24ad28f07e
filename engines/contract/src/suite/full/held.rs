//! Long values that stay in use across operations: pinned ones, as if they were being sent, and pending ones.

use super::changing::{Done, new_item};
use super::worker::{Arriving, PinOf, Pinned, Worker, name};
use crate::suite::sink::pin_of;
use crate::{Decision, Recency, Value};
use crate::{Engine, ItemSpec, PendingValue, Provision, Session};

/// The most pinned values, and the most pending ones.
const HELD_MAX: usize = 4;

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
            self.arriving.push(Arriving { key, pending, item, arrived: 0 });
        }
        if self.arriving.len() > HELD_MAX {
            // Its client has gone away.
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
        let end = arriving.item.value.len().min(arriving.arrived + piece);
        let session = self.turns.active();
        let result = session.extend(&mut arriving.pending, &arriving.item.value[arriving.arrived..end]);
        arriving.arrived = end;
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

    /// Checks the pins, and drops those that are due.
    pub(super) fn look_at_held(&mut self) {
        self.pins.iter().for_each(|pinned| self.check_pin(pinned));
        let step = self.step;
        self.pins.retain(|pinned| pinned.until > step);
        self.world.check(&self.plan, &self.engine.stats());
    }

    /// Drops all pins and pending values, and releases the sessions' caches.
    pub(super) fn settle(&mut self) {
        let pins = std::mem::take(&mut self.pins);
        pins.iter().for_each(|pinned| self.check_pin(pinned));
        self.arriving.clear();
        self.turns.sessions.iter_mut().for_each(Session::release_caches);
    }
}
